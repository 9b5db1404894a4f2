"""One reader of one response: live events as they come, and the log where something is missing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from contextvars import Context
from typing import Protocol
from uuid import UUID

from webtrace.api.database import in_database
from webtrace.conversations import log
from webtrace.conversations.endings import Ending, end_line
from webtrace.conversations.log import Line, Place
from webtrace.conversations.reader import Reader
from webtrace.events import ErrorBody

logger = logging.getLogger(__name__)


class Sink(Protocol):
    """Where a watched response's events go."""

    def put_line(self, response_id: str, line: Line) -> None: ...

    async def room(self) -> None: ...


class Watch:
    """Gives `sink` every event of a response after `place`, each once and in order."""

    def __init__(self, response_id: UUID, place: Place, sink: Sink) -> None:
        self.response_id = response_id
        self.reader = Reader(place)
        self._sink = sink
        self._reading: asyncio.Task[None] | None = None
        self._asked_again = False

    @property
    def ended(self) -> bool:
        return self.reader.ended

    def offer(self, lines: Iterable[Line]) -> None:
        """Live lines. Where they leave a hole, the log is read."""
        self._give(self.reader.offer(lines))
        if self.reader.behind:
            self.catch_up()

    def catch_up(self) -> None:
        """Read what the log has beyond this reader's place, in the background."""
        if self._reading is None:
            # An empty context: a request's would tie the reading to the thread of that request.
            self._reading = asyncio.create_task(self._read(), context=Context())
        else:
            self._asked_again = True

    async def caught_up(self) -> None:
        """Read the log to its end, now."""
        self.catch_up()
        if self._reading is not None:
            await asyncio.wait({self._reading})

    def end_deleted(self) -> None:
        """The response was deleted, and its log with it: whoever watches hears of an end all the same."""
        if self.ended:
            return
        self.reader.ended = True
        last = self.reader.place
        ending = Ending("cancelled", "", error=ErrorBody("deleted", "This answer was deleted."))
        self._give([end_line(response_id=self.response_id, place=Place(last.epoch, last.number + 1), ending=ending)])

    def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()

    async def _read(self) -> None:
        try:
            while not self.ended:
                self._asked_again = False
                await self._sink.room()  # a replay waits for the socket instead of losing its trace
                lines = await in_database(log.read, self.response_id, self.reader.place)
                self._give(self.reader.catch_up(lines))
                if not lines and not self._asked_again:
                    break
        except Exception:
            logger.exception("The log of response %s could not be read; it is tried again.", self.response_id)
        finally:
            self._reading = None

    def _give(self, lines: list[Line]) -> None:
        for line in lines:
            self._sink.put_line(str(self.response_id), line)
