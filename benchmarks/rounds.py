"""Sides measured in turn, so that whatever the machine does meanwhile happens to all of them."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

from benchmarks.calibration import Calibration

Side = Callable[[], float]
"""One run of one side: tokens per second, or milliseconds."""


@dataclass(frozen=True)
class Round:
    """Every side once. `calibration_ms` is the slowest reading before, between and after the runs."""

    calibration_ms: float
    values: Mapping[str, float]


def alternate(sides: Mapping[str, Side], num_rounds: int, calibration: Calibration) -> list[Round]:
    """Runs all sides `num_rounds` times, every other round in reverse order; one run of each before is not counted."""
    names = list(sides)
    for name in names:
        sides[name]()
    rounds = []
    gc.collect()
    gc.disable()  # a collection would fall into one side's run or another's
    try:
        for number in range(num_rounds):
            readings, values = [calibration.read()], {}
            for name in names if number % 2 == 0 else reversed(names):
                values[name] = sides[name]()
                readings.append(calibration.read())
            rounds.append(Round(max(readings), values))
    finally:
        gc.enable()
    return rounds


def quieter_half(rounds: list[Round]) -> list[Round]:
    """The rounds in which the calibration work was quickest."""
    return sorted(rounds, key=lambda one: one.calibration_ms)[: -(-len(rounds) // 2)]


def ratios(rounds: list[Round], side: str, other: str) -> list[float]:
    """How many times the other side's value, round by round."""
    return [one.values[side] / one.values[other] for one in rounds]


def middle(rounds: list[Round], side: str) -> float:
    """The side's median."""
    return median(one.values[side] for one in rounds)
