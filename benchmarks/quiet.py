"""How busy the machine was while something was measured: a calibration loop beside the run, and the quieter half."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

LOOP = 20_000  # additions: about a millisecond
EVERY_S = 0.1


def _loop_ms() -> float:
    start = time.perf_counter()
    total = 0
    for number in range(LOOP):
        total += number
    return 1e3 * (time.perf_counter() - start)


@dataclass(frozen=True)
class Sample:
    """One measured value and the moments, by `time.monotonic`, between which it was taken."""

    value: float
    start: float
    end: float


@dataclass
class Calibration:
    """Times of one fixed loop, `(moment, milliseconds)`, taken ten times a second while the run goes on."""

    times: list[tuple[float, float]] = field(default_factory=list)

    def near(self, sample: Sample) -> float:
        """Mean time of the loop while the sample was taken, in milliseconds; of the nearest where there is none."""
        within = [ms for at, ms in self.times if sample.start - EVERY_S <= at <= sample.end + EVERY_S]
        return statistics.fmean(within or [min(self.times, key=lambda one: abs(one[0] - sample.start))[1]])

    def quieter_half(self, samples: Sequence[Sample]) -> list[Sample]:
        """Those taken while the loop was fastest; half of them, rounded up."""
        return sorted(samples, key=self.near)[: (len(samples) + 1) // 2]

    def summary(self) -> dict[str, float]:
        times = [ms for _, ms in self.times]
        ends = statistics.quantiles(times, n=20)
        return {
            "loop_ms_median": round(statistics.median(times), 3),
            "loop_ms_p5": round(ends[0], 3),
            "loop_ms_p95": round(ends[-1], 3),
        }


@contextmanager
def calibrating() -> Iterator[Calibration]:
    """A thread that times the loop until the block ends."""
    calibration = Calibration([(time.monotonic(), _loop_ms())])
    done = threading.Event()

    def run() -> None:
        while not done.wait(EVERY_S):
            calibration.times.append((time.monotonic(), _loop_ms()))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield calibration
    finally:
        done.set()
        thread.join()
