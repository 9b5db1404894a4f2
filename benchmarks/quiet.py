"""How busy the machine was while something was measured: fixed work timed beside the run, and the quieter half."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.calibration import Calibration

EVERY_S = 0.25  # the work takes some milliseconds of one core


@dataclass(frozen=True)
class Sample:
    """One measured value and the moments, by `time.monotonic`, between which it was taken."""

    value: float
    start: float
    end: float
    processor: float | None = None
    """The same by the processor's time alone, which neighbours do not lengthen; where it is known."""


class Watch:
    """Times of the calibration's work, `(moment, milliseconds)`, taken again and again while the run goes on."""

    def __init__(self) -> None:
        self.calibration = Calibration()
        self.times: list[tuple[float, float]] = []
        self.look()

    def look(self) -> None:
        self.times.append((time.monotonic(), self.calibration.read()))

    def near(self, sample: Sample) -> float:
        """Mean time of the work while the sample was taken, in milliseconds; of the nearest where there is none."""
        within = [ms for at, ms in self.times if sample.start - EVERY_S <= at <= sample.end + EVERY_S]
        return statistics.fmean(within or [min(self.times, key=lambda one: abs(one[0] - sample.start))[1]])

    def quieter_half(self, samples: Sequence[Sample]) -> list[Sample]:
        """Those taken while the work was quickest; half of them, rounded up."""
        return sorted(samples, key=self.near)[: (len(samples) + 1) // 2]


@contextmanager
def watching() -> Iterator[Watch]:
    """A thread that times the work until the block ends."""
    watch = Watch()
    done = threading.Event()

    def run() -> None:
        while not done.wait(EVERY_S):
            watch.look()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        done.set()
        thread.join()
