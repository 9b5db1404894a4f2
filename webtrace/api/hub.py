"""One hub a web process: live events come in on one channel and go out to the readers of each response."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Coroutine
from contextlib import suppress
from contextvars import Context
from typing import Any, ClassVar, Protocol
from uuid import UUID
from weakref import WeakKeyDictionary

from channels.layers import get_channel_layer
from django.db.models import Max

from webtrace.api.database import in_database
from webtrace.api.housekeeping import keep_house
from webtrace.api.transport import before_shutdown
from webtrace.api.watch import Sink, Watch
from webtrace.conversations import live
from webtrace.conversations.log import Place
from webtrace.conversations.models import EventBatch
from webtrace.dispatch import jobs
from webtrace.dispatch.sweep import sweep_forever

logger = logging.getLogger(__name__)

# Live events get lost: whoever misses some looks again this often, and everybody this often.
RETRY_S = 0.25
POLL_S = 1.0
MARK_S = 4.0
GOODBYE_S = 2.0  # for the last reads of the log when the process stops
REJOIN_S = 3600.0  # a layer forgets group members after a day


class Listener(Protocol):
    """A socket, as the hub sees it."""

    @property
    def user_id(self) -> int | None: ...

    def recheck(self) -> None: ...

    async def go_away(self) -> None: ...


class Hub:
    """The readers of this process. Used from one event loop only; `current()` gives that loop's."""

    _of_loop: ClassVar[WeakKeyDictionary[asyncio.AbstractEventLoop, Hub]] = WeakKeyDictionary()

    def __init__(self) -> None:
        self._watches: defaultdict[UUID, set[Watch]] = defaultdict(set)
        self.listeners: set[Listener] = set()
        self._background: set[asyncio.Task[Any]] = set()
        runs = (self._listen(), self._poll(), self._mark(), sweep_forever(), keep_house())
        # An empty context: a request's would tie their database work to a thread that ends with the request.
        self._tasks = [asyncio.create_task(run, context=Context()) for run in runs]

    @classmethod
    def current(cls) -> Hub:
        loop = asyncio.get_running_loop()
        if loop not in cls._of_loop:
            cls._of_loop[loop] = hub = cls()
            before_shutdown(hub.go_away)
        return cls._of_loop[loop]

    def watch(self, response_id: UUID, place: Place, sink: Sink) -> Watch:
        """Begin to give a response's events to `sink`, those in the log first."""
        watch = Watch(response_id, place, sink)
        self._watches[response_id].add(watch)
        watch.catch_up()
        return watch

    def unwatch(self, watch: Watch) -> None:
        watch.close()
        watches = self._watches.get(watch.response_id, set())
        watches.discard(watch)
        if not watches:
            self._watches.pop(watch.response_id, None)

    def run_on(self, work: Coroutine[Any, Any, Any]) -> None:
        """Something short that must be finished even if its socket goes."""
        task = asyncio.create_task(work, context=Context())
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def go_away(self) -> None:
        """The process stops: give every socket the ends that were just written, and tell it to connect elsewhere."""
        last_reads = [watch.caught_up() for some in self._watches.values() for watch in some]
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*last_reads), GOODBYE_S)
        for listener in tuple(self.listeners):
            await listener.go_away()

    async def _listen(self) -> None:
        """Take live messages off the channel layer, for ever; a layer that fails is joined anew."""
        layer = get_channel_layer()
        loop = asyncio.get_running_loop()
        while True:
            channel = None
            try:
                channel = await layer.new_channel("hub")
                await layer.group_add(live.HUBS, channel)
                joined = loop.time()
                while loop.time() - joined < REJOIN_S:
                    self._take(await layer.receive(channel))
            except Exception:
                logger.exception("The channel layer failed; readers live on the log until it is back.")
                await asyncio.sleep(POLL_S)
            if channel is not None:
                with suppress(Exception):
                    await layer.group_discard(live.HUBS, channel)

    def _take(self, message: dict[str, Any]) -> None:
        if message["type"] == "live.events":
            for response_id, rows in message["batches"]:
                identifier = UUID(response_id)
                for watch in tuple(self._watches.get(identifier, ())):
                    watch.offer(live.lines_of(rows))
                self._forget_ended(identifier)
        elif message["type"] == "auth.changed":
            for listener in tuple(self.listeners):
                if listener.user_id == message["user_id"]:
                    listener.recheck()

    async def _poll(self) -> None:
        """Look into the log for whoever is behind, and now and then for everybody: the last live event may be lost,
        and then nothing shows that it is missing."""
        ticks = round(POLL_S / RETRY_S)
        tick = 0
        while True:
            await asyncio.sleep(RETRY_S)
            tick = (tick + 1) % ticks
            try:
                watches = [watch for some in self._watches.values() for watch in some]
                newest = await self._newest(watches) if tick == 0 and watches else None
                for watch in watches:
                    last = newest.get(watch.response_id) if newest is not None else Place()
                    if last is None:  # every response has a log from its first moment on
                        watch.end_deleted()
                    elif last > watch.reader.place or watch.reader.behind:
                        watch.catch_up()
                for identifier in tuple(self._watches):
                    self._forget_ended(identifier)
            except Exception:
                logger.exception("The log could not be polled; it is tried again.")

    async def _newest(self, watches: list[Watch]) -> dict[UUID, Place]:
        """The last logged event of each watched response: one query for all."""

        def query() -> dict[UUID, Place]:
            batches = EventBatch.objects.filter(response__in={watch.response_id for watch in watches})
            rows = batches.order_by("response", "epoch").values_list("response", "epoch").annotate(Max("last"))
            return {response: Place(epoch, last) for response, epoch, last in rows}

        return await in_database(query)

    async def _mark(self) -> None:
        """Tell dispatch which jobs somebody watches; the others end after a grace time."""
        while True:
            await asyncio.sleep(MARK_S)
            try:
                if self._watches:
                    await in_database(jobs.watch, response_ids=list(self._watches))
            except Exception:
                logger.exception("Watched jobs could not be marked; it is tried again.")

    def _forget_ended(self, identifier: UUID) -> None:
        for watch in tuple(self._watches.get(identifier, ())):
            if watch.ended:
                self.unwatch(watch)
