"""Puts a response's events in order for somebody who watches: live ones, and the log where live ones are missing."""

from __future__ import annotations

from collections.abc import Iterable

from webtrace.conversations.log import START, Line, Place
from webtrace.events import END_TYPES

MAX_WAITING = 1000


class Reader:
    """Takes lines in any order, doubled or with holes; gives each once, in order.

    Live lines go to `offer`. While `behind` is true something is missing before what has arrived: read the log
    after `place` and give what it has to `catch_up`. Both return the lines that may now be shown.
    """

    def __init__(self, place: Place = START) -> None:
        self.place = place
        self.ended = False
        self._waiting: dict[Place, Line] = {}

    @property
    def behind(self) -> bool:
        return bool(self._waiting)

    def offer(self, lines: Iterable[Line]) -> list[Line]:
        """Live lines. What cannot follow yet is kept, up to a bound: beyond it, the log will have it.

        An epoch is entered only through the log: its first event is logged before it is sent, when the log of the
        epoch before is complete.
        """
        for line in lines:
            if line.place > self.place and len(self._waiting) < MAX_WAITING:
                self._waiting[line.place] = line
        return self._follow()

    def catch_up(self, lines: Iterable[Line]) -> list[Line]:
        """What the log has after `place`, in order: all of it or its beginning."""
        fresh = [line for line in lines if line.place > self.place]
        for line in fresh:
            self._pass(line)
        followers = self._follow()
        self._waiting = {place: line for place, line in self._waiting.items() if place > self.place}
        return fresh + followers

    def _follow(self) -> list[Line]:
        """The waiting lines that come right after `place`."""
        ready: list[Line] = []
        while line := self._waiting.pop(Place(self.place.epoch, self.place.number + 1), None):
            self._pass(line)
            ready.append(line)
        return ready

    def _pass(self, line: Line) -> None:
        self.place = line.place
        self.ended = self.ended or line.type in END_TYPES
