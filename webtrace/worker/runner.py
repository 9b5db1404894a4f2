"""One worker: takes jobs, runs their journeys, keeps its lease, and leaves in good order."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine, Hashable
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import msgspec
from channels.db import database_sync_to_async
from django.utils import timezone

from inference.classifier import Card
from inference.messages import Ready
from inference.text import ChatTemplate, Tokenizer
from webtrace import journey
from webtrace.breakpoints import Breakpoints, from_json
from webtrace.conversations.endings import Ending
from webtrace.conversations.models import Response
from webtrace.database import DatabaseThread
from webtrace.dispatch import bell, jobs, routing, workers
from webtrace.dispatch.holds import asked_of
from webtrace.dispatch.models import Worker
from webtrace.events import ErrorBody, TraceStage
from webtrace.prompt import Assembler
from webtrace.reporting.timing import Stages
from webtrace.running.engine import Engine, Launch
from webtrace.running.holds import Holds
from webtrace.running.recorder import Recorder, Recording
from webtrace.running.stop import Stop
from webtrace.storage_problem import storage_problem, until_stored
from webtrace.worker import views

logger = logging.getLogger(__name__)

MAX_RESPONSES = 64  # taken at a time; the engine runs as many of them together as fit
HEARTBEAT_S = 1.0
IMPATIENCE_S = 2.5  # a job that has waited so long is taken by whoever sees it
STOP_GRACE_S = 5.0


class Runner:
    """The worker's life. Rings come in through `ring` and `cancel`, which return at once."""

    def __init__(self, launch: Launch, tokenizer: Tokenizer, place: int = 0) -> None:
        """`place` in the list of checkpoints that its operator names: who asks for no model gets the first."""
        self.worker_id = uuid4().hex
        self._place = place
        self.engine = Engine(launch, self._on_ready)
        self._tokenizer = tokenizer
        self._template = ChatTemplate(tokenizer)
        self._recorder = Recorder()
        self._lease = DatabaseThread("lease")
        self._worker: Worker | None = None
        self._stops: dict[UUID, Stop] = {}
        self._holds: dict[UUID, Holds] = {}
        self._views: dict[Hashable, set[str]] = {}  # those being made: question -> request keys
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False

    async def run(self) -> None:
        """Work until cancelled; then `stop` has been called."""
        await asyncio.gather(self.engine.run(), self._recorder.run(), self._beat())

    async def stop(self) -> None:
        """Take nothing more; what runs ends `interrupted` with the text it has."""
        self._stopping = True
        for stop in self._stops.values():
            stop.ask("worker_lost")
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=STOP_GRACE_S)
            for task in late:  # what they held is swept: the worker is entered as stopped below
                task.cancel()
        await self._recorder.close()
        await self._lease.run(workers.stop, worker_id=self.worker_id)
        await self._lease.close()

    # ------------------------------------------------------------ rings

    def ring(self, response_id: UUID, *, chosen: bool) -> None:
        """A job waits. `chosen`: another worker has routed it here."""
        if self._has_room:
            self._start(self._consider(response_id, take_it=chosen))

    def cancel(self, response_id: UUID) -> None:
        """A cancel may stand in a job's row."""
        if response_id in self._stops:
            self._start(self._look_for_cancels())

    def go_on(self, response_id: UUID) -> None:
        """Somebody may have asked a held response to go on."""
        if response_id in self._holds:
            self._start(self._look_for_continues())

    def view(self, request: views.ViewRequest) -> None:
        """Somebody asks for a view; who asks the same while it is being made gets the same."""
        if request.question in self._views:
            self._views[request.question].add(request.request_key)
        else:
            self._views[request.question] = {request.request_key}
            self._start(self._answer_view(request))

    async def _answer_view(self, request: views.ViewRequest) -> None:
        try:
            result = await views.answer(request, self.engine, self._recorder, self._tokenizer)
        finally:
            request_keys = self._views.pop(request.question)
        await views.leave(result, request_keys)

    @property
    def _has_room(self) -> bool:
        return self.engine.ready is not None and self._num_places > 0 and not self._stopping

    @property
    def _num_places(self) -> int:
        """Responses that may still be taken. Held ones do nothing and stand in nobody's way."""
        return MAX_RESPONSES - len(self._stops) + sum(holds.is_held for holds in self._holds.values())

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (problem := task.exception()):
            logger.error("A task of the worker failed.", exc_info=problem)

    # ------------------------------------------------------------ from job to end

    async def _consider(self, response_id: UUID, *, take_it: bool) -> None:
        """Route the job: take it, or ring the worker that should."""
        if response_id in self._stops or self._worker is None:
            return
        started = time.perf_counter()
        choice = await database_sync_to_async(self._choose)(response_id, take_it)
        if choice is None or choice.worker is None:
            return
        if choice.worker.pk != self.worker_id:
            await bell.ring_job(response_id, worker_id=choice.worker.pk)
            return
        routed = journey.Routed(choice, (time.perf_counter() - started) * 1000)
        if not self._has_room or response_id in self._stops:
            return
        stop = self._stops[response_id] = Stop()
        try:
            taken = await database_sync_to_async(jobs.take)(response_id=response_id, worker=self._worker)
            if taken is not None:
                await self._answer(taken, routed, stop)
        finally:
            del self._stops[response_id]
        if self._has_room:
            await self._look_for_jobs()

    def _choose(self, response_id: UUID, take_it: bool) -> routing.Choice | None:
        response = Response.objects.filter(pk=response_id, job__worker=None, job__isnull=False).first()
        if response is None:
            return None
        everyone = list(workers.alive())
        for worker in everyone:
            if worker.pk == self.worker_id:
                load = self._load()
                worker.num_running, worker.num_waiting = load.num_running, load.num_waiting
                worker.num_free_blocks = load.num_free_blocks
        return routing.choose(
            workers=everyone,
            requested=response.requested_model,
            previous=routing.previous_worker(response),
            now=timezone.now(),
            impatient=self.worker_id if take_it else None,
        )

    async def _answer(self, taken: jobs.Taken, routed: journey.Routed, stop: Stop) -> None:
        """Run the journey and write its end, whatever happens."""
        recording = self._recorder.open(taken, stop)
        stages = Stages(time.perf_counter(), "worker", partial(_report, recording))
        breakpoints = Breakpoints(from_json(taken.response.request["breakpoints"]))
        holds = self._holds[taken.response.pk] = Holds(breakpoints, recording, stages)
        try:
            ready = self.engine.require()
            assembler = Assembler(self._tokenizer, self._template, ready.capacity)
            card = msgspec.convert(ready.safety, Card) if ready.safety else None
            tools = journey.Tools(self.engine, assembler, card)
            ending = await journey.run(taken, routed, tools, recording, stages, holds)
        except Exception as failure:
            logger.exception("The journey of response %s failed.", taken.response.pk)
            error = storage_problem(failure) or ErrorBody(
                "internal_error", "The service failed on this request; the failure was logged."
            )
            ending = Ending("error", recording.text, recording.usage, error, {"token_ids": recording.token_ids})
        finally:
            del self._holds[taken.response.pk]
        if ending.finish_reason == "worker_lost":
            await self._recorder.interrupt(taken.response.pk, self.worker_id)
        else:
            await self._recorder.finish(recording, replace(ending, held_ms=stages.left_out_ms))

    # ------------------------------------------------------------ the lease

    async def _on_ready(self, ready: Ready) -> None:
        register = partial(workers.register, worker_id=self.worker_id, ready=ready, place=self._place)
        self._worker = await until_stored(partial(self._lease.run, register), "This worker could not be registered")
        logger.info(
            "Worker %s is ready: %s, %s on %s.", self.worker_id, ready.model["name"], ready.kernel, ready.device
        )
        await self._look_for_jobs()

    def _load(self) -> workers.Load:
        """The engine's own figures, and what is taken but has not reached it yet."""
        load = self.engine.load
        before = max(0, len(self._stops) - load.num_running)
        return workers.Load(load.num_running, max(load.num_waiting, before), load.num_free_blocks)

    async def _beat(self) -> None:
        """Renew the lease; look for cancels, continues and jobs whose rings were lost."""
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            if self._worker is None:
                continue
            try:
                await self._lease.run(workers.renew, worker_id=self.worker_id, load=self._load())
                await self._look_for_cancels()
                await self._look_for_continues()
                await self._look_for_leftovers()
                await self._look_for_jobs(waited_s=IMPATIENCE_S)
            except Exception:
                logger.exception("The lease could not be renewed; trying again.")

    async def _look_for_cancels(self) -> None:
        asked = await self._lease.run(jobs.cancels_of, worker_id=self.worker_id)
        for response_id, reason in asked.items():
            if stop := self._stops.get(response_id):
                stop.ask(reason)

    async def _look_for_continues(self) -> None:
        if not any(holds.is_held for holds in self._holds.values()):
            return
        for asked in await self._lease.run(asked_of, worker_id=self.worker_id):
            if holds := self._holds.get(asked.response_id):
                holds.go(asked)

    async def _look_for_leftovers(self) -> None:
        """Interrupt what the database says is computed here and is not: its end could not be written."""
        for response_id in await self._lease.run(jobs.taken_by, worker_id=self.worker_id):
            if response_id not in self._stops:  # where it stands from before it is taken until it has ended
                logger.error("Response %s was left without an end; it is interrupted.", response_id)
                await self._recorder.interrupt(response_id, self.worker_id)

    async def _look_for_jobs(self, *, waited_s: float = 0.0) -> None:
        """Take waiting jobs, as far as there is room. Those that have waited long are taken whoever should have."""
        room = self._num_places
        if not self._has_room:
            return
        for response_id in await self._lease.run(jobs.waiting, limit=room, waited_s=waited_s):
            if response_id not in self._stops:
                self._start(self._consider(response_id, take_it=waited_s > 0))


def _report(recording: Recording, fields: dict[str, Any]) -> None:
    recording.trace(TraceStage, **fields)
