"""What reading one prompt cost, summed over its cuts."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from inference.checkpoint import ModelConfig
from inference.messages import Prefilled, StageTime
from inference.model.clock import StageClock, multiply_adds
from inference.model.decoder import Chunk
from inference.stages import MODEL_STAGES

NUM_SHOWN = 10


class PrefillRecord:
    """Adds up time and multiply-adds by stage. `began` is when the sequence started (monotonic seconds)."""

    def __init__(self, began: float) -> None:
        self._began = began
        self._started: dict[str, float] = {}
        self._seconds: dict[str, float] = {}
        self._multiply_adds: dict[str, int] = {}
        self._num_cuts = 0
        self._num_tokens = 0
        self._total = 0.0

    def add(self, config: ModelConfig, clock: StageClock, chunk: Chunk, began: float, seconds: float) -> None:
        """One more cut: when it began (monotonic seconds), and how long it was computed."""
        for stage, time in clock.stages().items():
            self._started.setdefault(stage, began - self._began + time.started_ns / 1e9)
            self._seconds[stage] = self._seconds.get(stage, 0.0) + time.spent_ns / 1e9
        num_new = len(chunk.token_ids)
        counts = multiply_adds(config, num_new, chunk.start + num_new)
        if not chunk.wants_logits:
            del counts["logits"]
        for stage, count in counts.items():
            self._multiply_adds[stage] = self._multiply_adds.get(stage, 0) + count
        self._num_cuts += 1
        self._num_tokens += num_new
        self._total += seconds

    def report(self, response_id: str, num_reused: int, logits: Tensor) -> Prefilled:
        """`logits` [vocabulary] are those of step 0. A stage no cut went through has no time."""
        return Prefilled(
            response_id=response_id,
            num_computed=self._num_tokens,
            num_reused=num_reused,
            num_cuts=self._num_cuts,
            duration_ms=1e3 * self._total,
            stages=[self._stage(stage) for stage in MODEL_STAGES],
            logits=describe_logits(logits),
        )

    def _stage(self, stage: str) -> StageTime:
        ran = stage in self._started
        return StageTime(
            stage=stage,
            started_ms=1e3 * self._started[stage] if ran else None,
            duration_ms=1e3 * self._seconds[stage] if ran else None,
            multiply_adds=self._multiply_adds.get(stage, 0),
        )


def describe_logits(logits: Tensor) -> dict[str, Any]:
    """The ends of the vocabulary's ranking as [id, value], best and worst first, and its moments.

    What is not a finite number is None.
    """
    count = min(NUM_SHOWN, len(logits))
    std, mean = torch.std_mean(logits, correction=0)
    return {
        "top": _ranked(*torch.topk(logits, count)),
        "bottom": _ranked(*torch.topk(logits, count, largest=False)),
        "min": _finite(float(logits.min())),
        "max": _finite(float(logits.max())),
        "mean": _finite(float(mean)),
        "std": _finite(float(std)),
    }


def _ranked(values: Tensor, ids: Tensor) -> list[tuple[int, float | None]]:
    return [(i, _finite(value)) for i, value in zip(ids.tolist(), values.tolist(), strict=True)]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
