"""How long prompts are read beside running answers, so that nobody waits for more than a known factor."""

from __future__ import annotations

from collections import deque
from statistics import median

SLOWDOWN = 3.88
"""While prompts are read, an answer's tokens come so many times as far apart as without; the rest of that time is the
prompts'. It is aimed at in each step anew: what a step takes longer, its reading takes less."""
COLD = 1.3
"""A step right after reading takes longer, for its weights have left the caches; more than so many times its usual
time means that the usual one has changed (a slower machine, longer contexts)."""
RECENT = 8
"""Steps of which the middle one is the measure: one that was held up says nothing of the next."""


class Pace:
    def __init__(self) -> None:
        self._alone: dict[int, deque[float]] = {}
        """The latest steps with nothing to read, by the number of answers in them."""
        self._beside: deque[float] = deque(maxlen=RECENT)

    def allowance(self, num_answers: int, seconds: float, *, is_reading: bool) -> float:
        """Seconds for reading after a step of so many answers that took `seconds`; less than none at times."""
        if not is_reading:
            self._alone.setdefault(num_answers, deque(maxlen=RECENT)).append(seconds)
            return 0.0
        self._beside.append(seconds)
        return SLOWDOWN * self._usual(num_answers) - seconds

    def _usual(self, num_answers: int) -> float:
        """Seconds of such a step alone, as far as is known."""
        alone = self._alone.get(num_answers)
        return max(median(alone) if alone else 0.0, median(self._beside) / COLD)
