"""One head's newest attention row, pushed to the one socket that watches it while a response grows."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Coroutine
from typing import Any
from uuid import UUID

import msgspec
import numpy as np
import safetensors.numpy

from inference.query import parse_query
from webtrace import client_events, events
from webtrace.api.database import in_database
from webtrace.api.http import Problem
from webtrace.api.views import fetch
from webtrace.conversations.log import Line
from webtrace.conversations.models import Response

PAUSE_S = 0.05  # between two rows: a reader sees no more, and the engine has others to serve
LEVELS = 255


class _Numbered(msgspec.Struct):
    step: int


class WatchedHead:
    """What one socket watches: at most one head of one response. Rows that are overtaken while one is derived are left
    out."""

    def __init__(
        self,
        send: Callable[[events.TraceAttention | events.SocketError], None],
        start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[Any]],
    ) -> None:
        self._send = send
        self._start = start
        self._task: asyncio.Task[Any] | None = None
        self._response_id = ""
        self._newest = 0
        self._grown = asyncio.Event()

    def watch(self, response: Response, message: client_events.TraceWatch) -> None:
        """Instead of what was watched before; without a layer and head, nothing. Raises QueryError."""
        if self._task is not None:
            self._task.cancel()
            self._response_id = ""
        if message.layer is None or message.head is None:
            return
        parse_query("softmax", {"layer": message.layer, "head": message.head})
        self._response_id = str(response.pk)
        self._grown.clear()
        self._task = self._start(self._follow(response.pk, message.layer, message.head, message.event_id))

    def offer(self, response_id: str, line: Line) -> None:
        """An event that the socket is sent: a step says that there is another row."""
        if line.type == "trace.step" and response_id == self._response_id:
            self._newest = msgspec.json.decode(line.text, type=_Numbered).step
            self._grown.set()

    async def _follow(self, response_id: UUID, layer: int, head: int, event_id: str) -> None:
        while True:
            await self._grown.wait()
            self._grown.clear()
            try:
                self._send(await _row(response_id, layer, head, self._newest))
            except Problem as problem:
                if problem.error.code == "invalid_value":  # there is no such layer or head, now or later
                    error = problem.error
                    self._send(events.SocketError(error.code, error.message, error.field, event_id))
                    return
            except Response.DoesNotExist:
                return
            await asyncio.sleep(PAUSE_S)


async def _row(response_id: UUID, layer: int, head: int, step: int) -> events.TraceAttention:
    response = await in_database(Response.objects.get, pk=response_id)
    body = await fetch([response], "softmax", {"layer": layer, "head": head, "step": step})
    weights = safetensors.numpy.load(body)["weights"]
    largest = float(weights.max())
    levels = np.round(weights * (LEVELS / largest)).astype(np.uint8)
    return events.TraceAttention(
        response_id=str(response_id),
        step=step,
        layer=layer,
        head=head,
        largest=float(f"{largest:.6g}"),
        weights=base64.b64encode(levels.tobytes()).decode(),
    )
