"""What waits to be sent on one socket, bounded: text always wins, trace detail is dropped first and says so."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

import msgspec

from webtrace.conversations.log import Line
from webtrace.events import TraceDropped

# Trace events are taken while less than this waits; text until it overflows, and then the socket must resume later.
TRACE_ROOM = 512_000
TEXT_ROOM = 2_000_000
# A replay of the log goes on when no more than this waits.
REPLAY_ROOM = 128_000


class Outbox:
    """Frames in order, and a writer that sends them as fast as the connection takes them.

    `writable` blocks while the transport's own buffer is full, so what is unsent stands here, where it is bounded.
    """

    def __init__(self, send: Callable[[str], Awaitable[None]], writable: Callable[[], Awaitable[None]]) -> None:
        self._send = send
        self._writable = writable
        self._waiting: deque[_Frame] = deque()
        self.num_bytes = 0
        self._filled = asyncio.Event()
        self._drained = asyncio.Event()
        self._drained.set()
        self.overflowed = asyncio.Event()

    def put_line(self, response_id: str, line: Line) -> None:
        """One event of a response. Never blocks; a trace event may be dropped, which the reader is told."""
        if line.type.startswith("trace.") and self.num_bytes + len(line.text) > TRACE_ROOM:
            self._drop(response_id, line)
        else:
            self.put_text(line.text)

    def put_text(self, text: str) -> None:
        """A frame that must not be lost."""
        if self.num_bytes > TEXT_ROOM:
            self.overflowed.set()
            return
        self._append(_Frame(text))

    async def room(self) -> None:
        """Wait until a replay may go on."""
        await self._drained.wait()

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            await self._filled.wait()
            await self._writable()
            if not self._waiting:
                continue  # flushed meanwhile
            frame = self._waiting.popleft()
            self.num_bytes -= frame.size
            if not self._waiting:
                self._filled.clear()
            if self.num_bytes <= REPLAY_ROOM:
                self._drained.set()
            await self._send(frame.text)

    def flush(self) -> list[str]:
        """Take out everything that still waits."""
        texts = [frame.text for frame in self._waiting]
        self._waiting.clear()
        self._filled.clear()
        self.num_bytes = 0
        return texts

    def _append(self, frame: _Frame) -> None:
        self._waiting.append(frame)
        self.num_bytes += frame.size
        self._filled.set()
        if self.num_bytes > REPLAY_ROOM:
            self._drained.clear()

    def _drop(self, response_id: str, line: Line) -> None:
        """Extend the gap at the end of the queue, or begin one."""
        last = self._waiting[-1] if self._waiting else None
        if isinstance(last, _Gap) and last.follows(response_id, line):
            last.last = line.number
        else:
            self._append(_Gap(response_id, line))


class _Frame:
    """Text to be sent."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.size = len(text)


class _Gap(_Frame):
    """Consecutive trace events that are not sent. Its text is made when it leaves: until then it may grow."""

    def __init__(self, response_id: str, line: Line) -> None:
        self.response_id = response_id
        self.epoch = line.epoch
        self.first = self.last = line.number
        self.size = 160  # about what its frame will take

    def follows(self, response_id: str, line: Line) -> bool:
        return (self.response_id, self.epoch, self.last + 1) == (response_id, line.epoch, line.number)

    @property
    def text(self) -> str:  # type: ignore[override]
        dropped = TraceDropped(
            response_id=self.response_id,
            epoch=self.epoch,
            sequence_number=self.last,
            first=self.first,
            last=self.last,
        )
        return msgspec.json.encode(dropped).decode()
