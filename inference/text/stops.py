"""Stop strings over streamed text: found wherever they begin, and never sent in pieces."""

from __future__ import annotations

from collections.abc import Sequence


class StopMatcher:
    """Feed text as it comes; get what may be sent.

    The stop string whose last character comes first wins; of several that end there, the longest. So the result
    does not depend on how the text was cut into pieces.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        if not all(stops):
            raise ValueError("A stop string cannot be empty.")
        self._stops = sorted(stops, key=len, reverse=True)
        self._held = ""
        self.matched: str | None = None

    def push(self, text: str) -> str:
        """What may be sent now: all but a tail that could still become a stop string. Nothing after a match."""
        if self.matched is not None:
            return ""
        self._held += text
        if not self._stops:
            return self.flush()
        first = min(
            ((at + len(stop), -len(stop), stop) for stop in self._stops if (at := self._held.find(stop)) >= 0),
            default=None,
        )
        if first is None:
            return self._release(len(self._held) - self._length_of_possible_stop())
        end, _, self.matched = first
        safe, self._held = self._held[: end - len(self.matched)], ""
        return safe

    def flush(self) -> str:
        """What is still held back, released by the end of the response."""
        return self._release(len(self._held))

    @property
    def held(self) -> str:
        return self._held

    def _release(self, length: int) -> str:
        safe, self._held = self._held[:length], self._held[length:]
        return safe

    def _length_of_possible_stop(self) -> int:
        """Length of the longest tail of the held text that a stop string begins with."""
        longest = min(len(self._held), len(self._stops[0]) - 1)
        tails = (length for length in range(longest, 0, -1))
        return next((n for n in tails if any(stop.startswith(self._held[-n:]) for stop in self._stops)), 0)
