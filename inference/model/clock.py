"""Where the time of one forward pass goes, and how many multiply-adds it makes."""

from dataclasses import dataclass
from time import perf_counter_ns

from inference.checkpoint.config import ModelConfig


@dataclass(frozen=True)
class StageTime:
    """Time spent in one stage over all layers and sequences of one forward pass."""

    started_ns: int
    """Offset of its first start from the start of the pass."""
    spent_ns: int


class Clock:
    """What a forward pass tells its changes of stage. This one does not listen."""

    def mark(self, stage: str) -> None:
        """Everything since the last mark belonged to this stage."""


SILENT = Clock()
_ELSEWHERE = ""


class StageClock(Clock):
    """A stopwatch read at every change of stage. A reading costs about a tenth of a microsecond.

    Slugs are those of the catalogue of stages. A pass without a mask (every query is the last of its sequence)
    has no `mask`. On an accelerator it measures the launching of work, not the work: kernels run behind it.
    """

    def __init__(self) -> None:
        self._start = perf_counter_ns()
        self._readings: list[tuple[str, int]] = []

    def mark(self, stage: str) -> None:
        """Everything since the last mark belonged to this stage."""
        self._readings.append((stage, perf_counter_ns()))

    def skip(self) -> None:
        """Everything since the last mark belonged to something else."""
        self.mark(_ELSEWHERE)

    def stages(self) -> dict[str, StageTime]:
        """Time by stage slug, in order of first start."""
        times: dict[str, StageTime] = {}
        before = self._start
        for stage, now in self._readings:
            known = times.get(stage, StageTime(before - self._start, 0))
            times[stage] = StageTime(known.started_ns, known.spent_ns + now - before)
            before = now
        times.pop(_ELSEWHERE, None)
        return times


def multiply_adds(config: ModelConfig, num_new: int, context: int) -> dict[str, int]:
    """Multiply-adds by stage for `num_new` consecutive positions that end a context of `context` positions.

    With n new positions, L layers, d = width, h = n_heads * head_width, f = feed_forward_width, and P pairs
    of a query and a key it may look at, added up over the layers (in one without a window: the sum of
    start + 1 … context over the new positions):

        qkv            L n d (h + 2 n_kv_heads head_width)
        scores         P h              (each pair: head_width per head)
        weighted_sum   P h
        heads          L n h d
        feed_forward   3 L n d f
        logits         d vocabulary     (of the last position alone)

    Additions without a multiplication, norms, exponentials and rotations are left out: below one percent.
    """
    if not 0 < num_new <= context:
        raise ValueError(f"num_new must be between 1 and the context of {context}, not {num_new}")
    pairs = sum(_pairs(num_new, context, kind.window) for kind in config.layers)
    rows = config.n_layers * num_new
    return {
        "qkv": rows * config.width * config.qkv_width,
        "scores": pairs * config.query_width,
        "weighted_sum": pairs * config.query_width,
        "heads": rows * config.query_width * config.width,
        "feed_forward": 3 * rows * config.width * config.feed_forward_width,
        "logits": config.width * config.vocabulary,
    }


def _pairs(num_new: int, context: int, window: int | None) -> int:
    """Pairs of one of the last `num_new` queries and a key it may look at: min(position + 1, window) each."""
    start, window = context - num_new, context if window is None else min(window, context)
    growing = max(0, window - start)  # queries that see everything before them
    return growing * start + growing * (growing + 1) // 2 + (num_new - growing) * window
