"""How quiet is the machine right now? A fixed piece of work, timed between the runs of a benchmark."""

from __future__ import annotations

from time import perf_counter

import numpy as np

_SIDE = 256
_PRODUCTS = 8
_STREAM_BYTES = 32 << 20
"""More than a core's own caches hold: a neighbour on the memory bus shows too."""


class Calibration:
    """The same products of small matrices and the same walk through memory every time."""

    def __init__(self) -> None:
        random = np.random.default_rng(0)
        self._matrix = random.random((_SIDE, _SIDE), dtype=np.float32) / _SIDE
        self._stream = np.ones(_STREAM_BYTES // 4, dtype=np.float32)
        self.readings: list[float] = []
        for _ in range(3):
            self._work()

    def read(self) -> float:
        """Milliseconds the work takes now; kept in `readings`."""
        started = perf_counter()
        self._work()
        self.readings.append(1e3 * (perf_counter() - started))
        return self.readings[-1]

    def _work(self) -> None:
        product = self._matrix
        for _ in range(_PRODUCTS):
            product = product @ self._matrix
        self._stream.sum()

    def summary(self) -> dict[str, float]:
        """The quickest, the median and the slowest reading, if there is one."""
        if not self.readings:
            return {}
        ordered = sorted(self.readings)
        return {
            "least": round(ordered[0], 2),
            "median": round(ordered[len(ordered) // 2], 2),
            "most": round(ordered[-1], 2),
        }
