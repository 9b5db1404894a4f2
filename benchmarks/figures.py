"""A measured figure and what it must reach."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from statistics import median, quantiles
from typing import Literal


@dataclass(frozen=True)
class Bound:
    """What a figure must reach: at least or at most `limit`."""

    limit: float
    side: Literal["at least", "at most"]

    def holds(self, value: float) -> bool:
        return value >= self.limit if self.side == "at least" else value <= self.limit

    def __str__(self) -> str:
        return f"{'≥' if self.side == 'at least' else '≤'} {self.limit:g}"


BOUNDS = {
    "decode_vs_llamacpp": Bound(1.0, "at least"),
    "batch8_vs_llamacpp": Bound(1.3, "at least"),
    "prefill_vs_llamacpp": Bound(1.5, "at least"),
    "decode_vs_transformers": Bound(5, "at least"),
    "recording_on_vs_off": Bound(0.97, "at least"),
    "second_turn_tokens_computed": Bound(128, "at most"),
    "attention_map_ms": Bound(50, "at most"),
    "views_median_ms": Bound(100, "at most"),
    "worker_memory_mb": Bound(1050, "at most"),
    "decode_gap_steps": Bound(4, "at most"),
}
"""Of the engine, in the order of the table."""
PAGE_BOUNDS = {
    "long_tasks": Bound(0, "at most"),
    "frame_script_p95_ms": Bound(8, "at most"),
    "head_to_map_ms": Bound(150, "at most"),
    "whatif_ms": Bound(100, "at most"),
    "own_assets_kb": Bound(300, "at most"),
    "first_usable_ms": Bound(1000, "at most"),
    "open_longest_task_ms": Bound(100, "at most"),
    "bytes_per_token": Bound(2048, "at most"),
    "bytes_per_token_watched": Bound(4096, "at most"),
}
"""Of the page, in the order of its table."""


@dataclass(frozen=True)
class Figure:
    """One line of the table."""

    key: str
    value: float
    spread: tuple[float, float]
    """Of what the value is the middle of; what kind of spread stands in `note`."""
    note: str
    condition: bool = True
    """Whatever must hold besides the bound."""

    @property
    def bound(self) -> Bound:
        return (BOUNDS | PAGE_BOUNDS)[self.key]

    @property
    def reached(self) -> bool:
        return self.condition and self.bound.holds(self.value)


def of_values(key: str, values: list[float], note: str = "", *, condition: bool = True) -> Figure:
    """The median of the values, with their quartiles."""
    low, _, high = quantiles(values, n=4, method="inclusive") if len(values) > 1 else (values[0],) * 3
    note = ", ".join(filter(None, (note, f"quartiles of {len(values)}")))
    return Figure(key, median(values), (low, high), note, condition)


def with_interval(key: str, values: list[float]) -> Figure:
    """The median of the values, with the 95% confidence interval of the median, which assumes no distribution."""
    low, high = median_interval(values)
    return Figure(key, median(values), (low, high), f"95% interval of {len(values)} pairs")


def median_interval(values: list[float]) -> tuple[float, float]:
    """Order statistics between which the true median lies with at least 95% probability (binomial, p = 1/2)."""
    ordered, count = sorted(values), len(values)
    tail, rank = 0.0, 0
    while (tail := tail + comb(count, rank) / 2**count) <= 0.025:
        rank += 1
    rank = max(rank - 1, 0)
    return ordered[rank], ordered[count - 1 - rank]
