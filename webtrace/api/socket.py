"""The WebSocket at /ws/v1/: from accept to close, frames in and events out."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Coroutine
from typing import Any
from uuid import UUID

import msgspec
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings

from webtrace import events
from webtrace.api.attention import WatchedHead
from webtrace.api.credential import Credential
from webtrace.api.database import in_database
from webtrace.api.frames import UnreadableFrame, read_frame
from webtrace.api.hub import Hub
from webtrace.api.outbox import Outbox
from webtrace.api.requests import Requests
from webtrace.api.transport import WriteGate, answer_breaches, send_close_frame
from webtrace.api.watches import Watches
from webtrace.conversations.log import Line
from webtrace.gateway import rejections
from webtrace.gateway.address import client_address
from webtrace.gateway.identity import Unauthenticated
from webtrace.gateway.incoming import shown_headers
from webtrace.gateway.origin import is_encrypted, origin_allowed
from webtrace.storage_problem import storage_problem

logger = logging.getLogger(__name__)

RECHECK_S = 30.0  # how long a revoked key or an ended session can go unnoticed while nothing is asked
IDLE_S = 1800.0  # without a frame from the client and nothing watched
MAX_SOCKETS = 32  # a user, or an address before there is a user
MAX_FRAMES = 300  # a minute and socket
MAX_UNREADABLE = 100  # one after another
# A frame of more than MAX_FRAME_BYTES gets an `error`, the socket lives; past this it is not even read: close 1009.
READ_FRAME_BYTES = 2 * settings.MAX_FRAME_BYTES
FAILED = events.ErrorBody("internal_error", "The frame could not be handled; try again.")


class ClientSocket(AsyncWebsocketConsumer):  # type: ignore[misc]
    """One connection. Handlers never wait for generation: events come from the hub through the outbox."""

    channel_layer_alias = "none"  # the hub listens for all sockets of the process

    async def connect(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._recent: deque[float] = deque()
        self._last_frame = time.monotonic()
        self._num_unreadable = 0
        self._closed = False
        self._head = WatchedHead(self._tell, self._start)
        self._hub = Hub.current()
        self._watches = Watches(self._hub, self)
        self._headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in self.scope["headers"]}
        self._encrypted = is_encrypted(self._headers, self.scope.get("scheme"))
        self._address = client_address((self.scope.get("client") or [None])[0], self._headers.get("x-forwarded-for"))
        self.credential = Credential(self._headers, self._address)
        self._requests = Requests(
            self.credential, self._watches, self._head, self._tell,
            headers=shown_headers(self.scope["headers"]), encrypted=self._encrypted,
        )  # fmt: skip
        await self.accept()
        answer_breaches(self.base_send, READ_FRAME_BYTES)
        gate = WriteGate()
        gate.watch(self.base_send)
        self._outbox = Outbox(self._send_text, gate.wait)
        if self.credential.is_session and not origin_allowed(self._headers, encrypted=self._encrypted):
            await self._end(events.CLOSE_FORBIDDEN, "forbidden_origin", "This Origin may not use a session here.")
            return
        try:
            if not await self._identify():
                return
        except Exception as failure:
            logger.exception("A credential could not be checked.")
            error = storage_problem(failure) or FAILED
            await self._end(events.CLOSE_TRY_LATER, error.code, error.message)
            return
        sockets = (other for other in self._hub.listeners if isinstance(other, ClientSocket))
        if sum(self.credential.shares_place(other.credential) for other in sockets) >= MAX_SOCKETS:
            await self._end(events.CLOSE_TOO_MANY, "too_many_connections", f"At most {MAX_SOCKETS} at a time.")
            return
        self._hub.listeners.add(self)
        self._start(self._outbox.run())
        self._start(self._keep())
        self._start(self._close_when_overflowing())

    async def disconnect(self, code: int) -> None:
        self._closed = True
        self._hub.listeners.discard(self)
        self._watches.close()
        for task in self._tasks:
            task.cancel()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if self._closed:
            return
        self._last_frame = time.monotonic()
        if not self._count_frame():
            await self._end(events.CLOSE_TOO_MANY, "rate_limited", f"At most {MAX_FRAMES} frames a minute.")
            return
        try:
            if text_data is None:
                raise UnreadableFrame("binary_frame", "Frames must be text that holds JSON.")
            message = read_frame(text_data)
        except UnreadableFrame as unreadable:
            self._reject(unreadable.error, text_data or bytes_data or "")
            self._num_unreadable += 1
            if self._num_unreadable == MAX_UNREADABLE:
                await self._end(events.CLOSE_BAD_FRAMES, "bad_frames", f"{MAX_UNREADABLE} frames made no sense.")
            return
        self._num_unreadable = 0
        try:
            await self._requests.carry_out(message, text_data)
        except UnreadableFrame as unreadable:
            self._reject(unreadable.error, text_data)
        except Unauthenticated as problem:
            await self._end(events.CLOSE_UNAUTHENTICATED, "unauthenticated", str(problem))
        except Exception as failure:
            logger.exception("A frame could not be handled.")
            error = storage_problem(failure) or FAILED
            self._tell(events.SocketError(error.code, error.message, None, message.event_id, error.retry_after))

    # ------------------------------------------------------------ a sink of the hub, and a listener

    def put_line(self, response_id: str, line: Line) -> None:
        self._outbox.put_line(response_id, line)
        self._head.offer(response_id, line)
        if line.type in events.END_TYPES:
            self._watches.ended(UUID(response_id))

    async def room(self) -> None:
        await self._outbox.room()

    @property
    def user_id(self) -> int | None:
        return self.credential.principal.user.pk if self.credential.principal else None

    def recheck(self) -> None:
        """Look whether the session or key is still good; close if not."""
        self._start(self._still_good())

    async def go_away(self) -> None:
        """The process stops."""
        self._closed = True
        for text in self._outbox.flush():
            await self._send_text(text)
        await self._close_with(events.CLOSE_GOING_AWAY)

    # ------------------------------------------------------------ sending and ending

    def _tell(self, message: events.SocketError | events.TraceAttention) -> None:
        self._outbox.put_text(msgspec.json.encode(message).decode())

    def _reject(self, error: events.SocketError, frame: str | bytes) -> None:
        """Tell the client and leave a row in the gateway's log."""
        self._tell(error)
        record = in_database(
            rejections.record,
            code=error.code,
            message=error.message,
            transport="websocket",
            field=error.field,
            owner=self.credential.principal.user if self.credential.principal else None,
            address=self._address,
            num_bytes=len(frame.encode()) if isinstance(frame, str) else len(frame),
        )
        self._hub.run_on(record)

    async def _end(self, code: int, error_code: str, message: str) -> None:
        """An `error` event and what else waits, then close."""
        if self._closed:
            return
        self._closed = True
        self._tell(events.SocketError(error_code, message))
        for text in self._outbox.flush():
            await self._send_text(text)
        await self._close_with(code)

    async def _send_text(self, text: str) -> None:
        await self.send(text_data=text)

    async def _identify(self) -> bool:
        """Check the credential (again). Closes the socket and returns False when it is no longer good."""
        try:
            await self.credential.check()
        except Unauthenticated as problem:
            await self._end(events.CLOSE_UNAUTHENTICATED, "unauthenticated", str(problem))
            return False
        return True

    async def _still_good(self) -> bool:
        """As `_identify`. Where it cannot be checked the connection stays: each request is checked by itself."""
        try:
            return await self._identify()
        except Exception:
            logger.exception("A credential could not be checked again; it is tried later.")
            return True

    async def _keep(self) -> None:
        """Check the credential now and then, and whether anybody still uses this connection."""
        while True:
            await asyncio.sleep(RECHECK_S)
            if not await self._still_good():
                return
            if not self._watches and time.monotonic() - self._last_frame > IDLE_S:
                await self._end(events.CLOSE_IDLE, "idle", "Nothing was asked for a long time; connect again.")
                return

    async def _close_with(self, code: int) -> None:
        """With one of our own codes, or 1012 or 1013, which only a server may send."""
        if code >= events.CLOSE_BAD_FRAMES or not send_close_frame(self.base_send, code):
            await self.close(code)

    async def _close_when_overflowing(self) -> None:
        await self._outbox.overflowed.wait()
        self._closed = True
        await self._close_with(events.CLOSE_TRY_LATER)

    def _count_frame(self) -> bool:
        """Whether this frame is within the last minute's share."""
        now = time.monotonic()
        while self._recent and now - self._recent[0] > 60:
            self._recent.popleft()
        self._recent.append(now)
        return len(self._recent) <= MAX_FRAMES

    def _start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run beside the receive loop until the socket closes."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
