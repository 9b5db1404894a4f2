"""The worker's side of its engine child: routes its messages to those who wait, and starts it again when it dies."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple, Protocol, TypeVar
from uuid import uuid4

from inference import messages as m
from inference.process import EngineGone
from webtrace.dispatch.workers import Load
from webtrace.running.stop import Stop

logger = logging.getLogger(__name__)
T = TypeVar("T")

CANCEL_GRACE_S = 2.0  # an engine that does not confirm a cancel for so long is not waited for
RPC_TIMEOUT_S = 10.0
VIEW_TIMEOUT_S = 120.0  # a long response that is computed again between the steps of others
FIRST_BACKOFF_S, LONGEST_BACKOFF_S = 0.2, 30.0

Progress = m.Started | m.Prefilled | m.Step | m.Held | m.Ended


class Arrived(NamedTuple):
    """A message of the engine and when it came, by `time.perf_counter`."""

    message: Progress
    at: float


class EngineLost(Exception):
    """The engine child has died; the message says how."""


class EngineFailed(Exception):
    """The engine could not do what was asked. `field` names the part of the question that was wrong, if one was."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class Child(Protocol):
    """A running engine process: `inference.process.EngineProcess`, or a stand-in in tests."""

    async def ready(self) -> m.Ready: ...
    async def send(self, message: m.ToEngine) -> None: ...
    def __aiter__(self) -> AsyncIterator[m.FromEngine]: ...
    async def stop(self) -> None: ...
    @property
    def exit_reason(self) -> str: ...


Launch = Callable[[], Awaitable[Child]]


class Engine:
    """One engine child after another. `on_ready` is awaited each time one has loaded."""

    def __init__(self, launch: Launch, on_ready: Callable[[m.Ready], Awaitable[None]]) -> None:
        self._launch = launch
        self._on_ready = on_ready
        self._outbox: asyncio.Queue[m.ToEngine] = asyncio.Queue()
        self._streams: dict[str, asyncio.Queue[Arrived | Exception]] = {}
        self._on_lost: dict[str, Callable[[], None]] = {}
        self._answers: dict[str, asyncio.Future[Any]] = {}
        self.ready: m.Ready | None = None
        self.load = Load()

    async def run(self) -> None:
        """Keep an engine running until cancelled. Raises EngineGone if the very first does not come up."""
        await self._run_one()
        backoff = FIRST_BACKOFF_S
        while True:
            await asyncio.sleep(backoff)
            try:
                await self._run_one()
                backoff = FIRST_BACKOFF_S
            except EngineGone as problem:
                backoff = min(2 * backoff, LONGEST_BACKOFF_S)
                logger.error("%s It is tried again in %.1f s.", problem, backoff)

    async def _run_one(self) -> None:
        """One child from its start to its death. Raises EngineGone if it does not come up."""
        child = await self._launch()
        reason = "the worker stops"
        try:
            ready = await child.ready()
            self._begin(ready)
            await self._on_ready(ready)
            await self._serve(child)
            reason = child.exit_reason
            logger.error("%s It is started again.", reason)
        finally:
            self._lose(reason)
            await asyncio.shield(child.stop())

    def require(self) -> m.Ready:
        """What the running engine is. Raises EngineLost."""
        if self.ready is None:
            raise EngineLost("it is not running")
        return self.ready

    async def generate(
        self, request: m.Generate, stop: Stop, on_lost: Callable[[], None] | None = None
    ) -> AsyncGenerator[Arrived, None]:
        """The progress of one response, its `Ended` last. Raises EngineLost, after a call of `on_lost`.

        When `stop` is asked for, the engine is told to cancel; if it does not confirm soon, an `Ended` is made here.
        """
        stream: asyncio.Queue[Arrived | Exception] = asyncio.Queue()
        self._streams[request.response_id] = stream
        if on_lost is not None:
            self._on_lost[request.response_id] = on_lost
        try:
            self._send(request)
            stop.then(lambda: self._cancel(request, stream))
            while True:
                arrived = await stream.get()
                if isinstance(arrived, Exception):
                    raise arrived
                yield arrived
                if isinstance(arrived.message, m.Ended):
                    return
        finally:
            self._on_lost.pop(request.response_id, None)
            if self._streams.pop(request.response_id, None) is not None and self.ready is not None:
                self._outbox.put_nowait(m.Cancel(request.response_id))  # unknown to the engine by now, or not wanted

    def proceed(self, response_id: str, breakpoints: list[int]) -> None:
        """Let a held sequence go on, to be held again after these steps. Does nothing when the engine is gone."""
        if self.ready is not None:
            self._outbox.put_nowait(m.Continue(response_id, breakpoints))

    async def judge(self, texts: list[str]) -> list[dict[str, float]]:
        """The safety heads' scores of each text. Raises EngineLost, EngineFailed."""
        reply = await self._ask(m.Judge(_new_id(), texts), m.Judged)
        return reply.scores

    async def embed(self, texts: list[str]) -> list[list[float]]:
        """The sentence embedding of each text. Raises EngineLost, EngineFailed."""
        reply = await self._ask(m.Embed(_new_id(), texts), m.Embedded)
        return reply.embeddings

    async def view(self, slug: str, query: dict[str, Any], subject: m.Subject, other: m.Subject | None) -> bytes:
        """One view as safetensors bytes. Raises EngineLost, EngineFailed (with the field that was wrong)."""
        reply = await self._ask(m.ViewRequest(_new_id(), slug, query, subject, other), m.ViewReply)
        assert reply.body is not None
        return reply.body

    async def _ask(self, request: m.Judge | m.Embed | m.ViewRequest, kind: type[T]) -> T:
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._answers[request.request_id] = answer
        try:
            self._send(request)
            async with asyncio.timeout(VIEW_TIMEOUT_S if isinstance(request, m.ViewRequest) else RPC_TIMEOUT_S):
                return await answer
        except TimeoutError:
            raise EngineFailed("The engine did not answer in time.") from None
        finally:
            self._answers.pop(request.request_id, None)

    def _begin(self, ready: m.Ready) -> None:
        self.ready = ready
        self.load = Load(num_free_blocks=ready.num_blocks)
        self._outbox = asyncio.Queue()

    async def _serve(self, child: Child) -> None:
        """Carry messages both ways until the child dies."""
        sender = asyncio.create_task(self._send_forever(child, self._outbox))
        try:
            async for message in child:
                self._route(message)
        finally:
            sender.cancel()

    @staticmethod
    async def _send_forever(child: Child, outbox: asyncio.Queue[m.ToEngine]) -> None:
        while True:
            message = await outbox.get()
            try:
                await child.send(message)
            except EngineGone:
                return  # its death is noticed where its messages are read

    def _send(self, message: m.ToEngine) -> None:
        self.require()
        self._outbox.put_nowait(message)

    def _route(self, message: m.FromEngine) -> None:
        match message:
            case m.Steps():
                self.load = Load(message.num_running, message.num_waiting, message.num_free_blocks)
                for step in message.items:
                    self._forward(step)
            case m.Started() | m.Prefilled() | m.Held() | m.Ended():
                self._forward(message)
            case m.ViewReply() | m.Embedded() | m.Judged():
                answer = self._answers.get(message.request_id)
                if answer is None or answer.done():
                    return
                if message.error is not None:
                    answer.set_exception(EngineFailed(message.error, getattr(message, "field", None)))
                else:
                    answer.set_result(message)

    def _forward(self, message: Progress) -> None:
        if stream := self._streams.get(message.response_id):
            stream.put_nowait(Arrived(message, time.perf_counter()))

    def _cancel(self, request: m.Generate, stream: asyncio.Queue[Arrived | Exception]) -> None:
        if self.ready is None:
            return
        self._outbox.put_nowait(m.Cancel(request.response_id))
        unconfirmed = m.Ended(request.response_id, "cancelled", "", len(request.token_ids), 0, [])
        made = Arrived(unconfirmed, time.perf_counter())
        asyncio.get_running_loop().call_later(CANCEL_GRACE_S, stream.put_nowait, made)

    def _lose(self, reason: str) -> None:
        """Tell everybody who waits that the engine is gone."""
        self.ready = None
        self.load = Load()
        for stream in self._streams.values():
            stream.put_nowait(EngineLost(reason))
        for tell in self._on_lost.values():
            tell()
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(EngineLost(reason))


def _new_id() -> str:
    return uuid4().hex
