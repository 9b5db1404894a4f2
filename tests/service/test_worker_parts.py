"""The parts of a worker one by one: its engine client, its recorder."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest
from channels.layers import InMemoryChannelLayer
from django.conf import settings
from django.db import OperationalError

from inference import messages as m
from inference.process import EngineGone
from tests.service.work import ready
from webtrace.conversations import live, log
from webtrace.conversations.endings import Ending
from webtrace.conversations.log import Line, Place, Write
from webtrace.conversations.models import Response
from webtrace.dispatch import jobs
from webtrace.dispatch.jobs import Taken
from webtrace.events import ResponseInProgress
from webtrace.running.engine import Engine, EngineFailed, EngineLost
from webtrace.running.recorder import Recorder, Recording
from webtrace.running.stop import Stop


class ScriptedChild:
    """Stands in for an engine process: says what it is told to, and remembers what it heard."""

    def __init__(self, up: bool = True) -> None:
        self.up = up
        self.heard: asyncio.Queue[m.ToEngine] = asyncio.Queue()
        self._said: asyncio.Queue[m.FromEngine | None] = asyncio.Queue()
        self.exit_reason = "it was killed by signal SIGKILL"

    async def ready(self) -> m.Ready:
        if not self.up:
            raise EngineGone("no such checkpoint")
        return ready()

    async def send(self, message: m.ToEngine) -> None:
        await self.heard.put(message)

    async def __aiter__(self) -> AsyncIterator[m.FromEngine]:
        while (message := await self._said.get()) is not None:
            yield message

    async def stop(self) -> None:
        self.die()

    def say(self, message: m.FromEngine) -> None:
        self._said.put_nowait(message)

    def die(self) -> None:
        self._said.put_nowait(None)


@asynccontextmanager
async def engine(*children: ScriptedChild) -> AsyncIterator[Engine]:
    """A client of these children, one after another, when the first is ready."""
    waiting = list(children)
    up = asyncio.Event()

    async def launch() -> ScriptedChild:
        return waiting.pop(0)

    async def on_ready(_: m.Ready) -> None:
        up.set()

    client = Engine(launch, on_ready)
    running = asyncio.create_task(client.run())
    await up.wait()
    yield client
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def generate(response_id: str) -> m.Generate:
    return m.Generate(response_id, [1, 2, 3], m.Sampling(seed=1), [0], "user 1", True)


def step(response_id: str, number: int) -> m.Step:
    return m.Step(
        response_id, number, 7, "x", "x", 0, -1.0, -1.0, 0, 0.5, [], m.Ledger([], 0.5, False), 1, 1.0, 1.0, 1
    )  # fmt: skip


def ended(response_id: str, finish: m.EngineFinish = "stop") -> m.Ended:
    return m.Ended(response_id, finish, "", 3, 0, [7])


async def follow(client: Engine, response_id: str, stop: Stop | None = None) -> list[Any]:
    return [arrived.message async for arrived in client.generate(generate(response_id), stop or Stop())]


async def test_each_response_gets_its_own_messages() -> None:
    child = ScriptedChild()
    async with engine(child) as client:
        a, b = (asyncio.create_task(follow(client, name)) for name in "ab")
        await child.heard.get()
        await child.heard.get()
        child.say(m.Steps([step("a", 0), step("b", 0)], 2, 1, 60))
        child.say(m.Steps([step("b", 1)], 1, 0, 61))
        child.say(ended("b"))
        child.say(ended("a"))
        assert [type(one).__name__ for one in await a] == ["Step", "Ended"]
        assert [getattr(one, "step", None) for one in await b] == [0, 1, None]
        assert (client.load.num_running, client.load.num_waiting, client.load.num_free_blocks) == (1, 0, 61)


async def test_a_cancel_reaches_the_engine_which_says_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webtrace.running.engine.CANCEL_GRACE_S", 60)
    child, stop = ScriptedChild(), Stop()
    async with engine(child) as client:
        task = asyncio.create_task(follow(client, "a", stop))
        await child.heard.get()
        stop.ask("cancelled")
        assert await asyncio.wait_for(child.heard.get(), 10) == m.Cancel("a")
        child.say(ended("a", "cancelled"))
        assert (await task)[-1].finish == "cancelled"


async def test_an_engine_that_does_not_confirm_a_cancel_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webtrace.running.engine.CANCEL_GRACE_S", 0.05)
    child, stop = ScriptedChild(), Stop()
    stop.ask("cancelled")
    async with engine(child) as client:
        assert (await follow(client, "a", stop))[-1].finish == "cancelled"


async def test_whoever_waits_hears_of_the_engine_s_death_and_the_next_one_serves() -> None:
    first, second = ScriptedChild(), ScriptedChild()
    async with engine(first, second) as client:
        waiting = [asyncio.create_task(follow(client, "a")), asyncio.create_task(client.judge(["text"]))]
        await first.heard.get()
        await first.heard.get()
        first.die()
        for problem in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(problem, EngineLost)
            assert "SIGKILL" in str(problem)
        with pytest.raises(EngineLost):
            client.require()
        task = asyncio.create_task(_when_ready(client))
        await asyncio.wait_for(second.heard.get(), 5)
        second.say(ended("b"))
        assert (await task)[-1] == ended("b")


async def test_a_held_response_goes_on_over_the_pipe_and_hears_of_the_engine_s_death() -> None:
    child, lost = ScriptedChild(), asyncio.Event()
    async with engine(child, ScriptedChild()) as client:
        progress = client.generate(generate("a"), Stop(), on_lost=lost.set)
        waiting = asyncio.create_task(anext(progress))
        await child.heard.get()
        child.say(m.Held("a", 3))
        assert (await waiting).message == m.Held("a", 3)
        client.proceed("a", [5])
        assert await asyncio.wait_for(child.heard.get(), 10) == m.Continue("a", [5])
        child.die()
        await asyncio.wait_for(lost.wait(), 10)
        with pytest.raises(EngineLost):
            await anext(progress)


async def _when_ready(client: Engine) -> list[Any]:
    await until(lambda: client.ready)
    return await follow(client, "b")


async def test_an_engine_that_never_comes_up_is_an_error_of_the_start() -> None:
    async def launch() -> ScriptedChild:
        return ScriptedChild(up=False)

    async def on_ready(_: m.Ready) -> None:
        raise AssertionError

    with pytest.raises(EngineGone, match="no such checkpoint"):
        await Engine(launch, on_ready).run()


async def test_questions_are_answered_or_fail_with_their_field() -> None:
    child = ScriptedChild()
    async with engine(child) as client:
        judging = asyncio.create_task(client.judge(["a joke"]))
        asked = await child.heard.get()
        assert isinstance(asked, m.Judge)
        child.say(m.Judged(asked.request_id, [{"other": 1.0}]))
        assert await judging == [{"other": 1.0}]
        viewing = asyncio.create_task(client.view("softmax", {"layer": 99}, m.Subject("a", "f1", [1], 1), None))
        request = await child.heard.get()
        assert isinstance(request, m.ViewRequest)
        child.say(m.ViewReply(request.request_id, error="layer must be 0 to 1", field="layer"))
        with pytest.raises(EngineFailed) as caught:
            await viewing
        assert caught.value.field == "layer"


# ---------------------------------------------------------------- the recorder


class Database:
    """Stands in for the log: remembers what was written, may be slow, down, or somebody else's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lines: list[Line] = []
        self.ending: Ending | None = None
        self.delay_s = 0.0
        self.failures = 0
        self.failure: Exception = OSError("database is locked")
        self.refused = ""  # ends with this reason
        self.ours = True
        self.threads: set[int] = set()
        monkeypatch.setattr(log, "append", self._append)
        monkeypatch.setattr(jobs, "end", self._end)

    def _work(self) -> None:
        self.threads.add(threading.get_ident())
        time.sleep(self.delay_s)
        if self.failures:
            self.failures -= 1
            raise self.failure

    def _append(self, writes: list[Write]) -> set[UUID]:
        self._work()
        self.lines += [line for write in writes for line in write.lines if self.ours]
        return {write.response_id for write in writes} if self.ours else set()

    def _end(self, *, lines: list[Line], ending: Ending, **_: Any) -> bool:
        self._work()
        if ending.finish_reason == self.refused:
            raise self.failure
        self.lines += lines
        self.ending = ending
        return self.ours


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Database:
    return Database(monkeypatch)


@pytest.fixture
async def hub(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Callable[[], list[Line]]]:
    """What a web process's hub has heard so far."""
    layer = InMemoryChannelLayer()
    monkeypatch.setattr(live, "get_channel_layer", lambda: layer)
    await layer.group_add(live.HUBS, "hub")
    heard: list[Line] = []

    async def listen() -> None:
        while True:
            message = await layer.receive("hub")
            heard.extend(line for _, rows in message["batches"] for line in live.lines_of(rows))

    listening = asyncio.create_task(listen())
    yield lambda: heard
    listening.cancel()


@asynccontextmanager
async def recording(trace: bool = True) -> AsyncIterator[tuple[Recorder, Recording]]:
    response = Response(trace=trace)
    first = log.line(
        response.pk, Place(1, 1), ResponseInProgress, worker_id="w", model="m", fingerprint="f", sampling=m.Sampling()
    )
    recorder = Recorder()
    running = asyncio.create_task(recorder.run())
    yield recorder, recorder.open(Taken(response, 1, 0.0, [first]), Stop())
    running.cancel()
    await recorder.close()


async def until(true: Callable[[], Any], limit_s: float = 10.0) -> None:
    async with asyncio.timeout(limit_s):
        while not true():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.005)


async def test_a_slow_database_does_not_hold_up_the_stream(database: Database, hub: Any) -> None:
    database.delay_s = 0.6
    async with recording() as (recorder, one):
        for number in range(20):
            one.release(f"{number} ")
            await until(lambda: hub() and one.text.endswith(json.loads(hub()[-1].text).get("delta", "?")))
            written = len(database.lines)
        assert written < 21, "the stream ran ahead of the log"
        await recorder.finish(one, Ending("stop", one.text))
    assert [line.number for line in database.lines] == list(range(1, 23))[1:], "each once, in order"
    assert [line.number for line in hub()] == list(range(1, 23))
    assert threading.get_ident() not in database.threads


async def test_a_write_that_fails_is_tried_again(database: Database, hub: Any) -> None:
    database.failures = 3
    async with recording() as (recorder, one):
        one.release("a")
        await until(lambda: database.failures == 0)
        one.release("b")
        assert await recorder.finish(one, Ending("stop", "ab"))
    assert [line.number for line in database.lines] == [2, 3, 4]


async def test_an_end_that_cannot_be_stored_is_written_as_a_failure(database: Database, hub: Any) -> None:
    database.refused = "stop"
    async with recording() as (recorder, one):
        one.release("a")
        assert await asyncio.wait_for(recorder.finish(one, Ending("stop", "a", record={"resources": {}})), 10)
        await until(lambda: hub()[-1].type == "response.failed")
    end = json.loads(database.lines[-1].text)
    assert (end["finish_reason"], end["text"], end["error"]["code"]) == ("error", "a", "internal_error")
    assert database.ending is not None
    assert database.ending.record == {}


async def test_an_end_is_given_up_when_no_way_of_writing_it_works(
    database: Database, hub: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webtrace.storage_problem.FIRST_WAIT_S", 0.001)
    monkeypatch.setattr("webtrace.running.recorder.END_PATIENCE_S", 0.05)
    for failure in (OperationalError("the connection is lost"), ValueError("a fault of ours")):
        async with recording() as (recorder, one):
            database.failures, database.failure = 10**6, failure
            assert not await asyncio.wait_for(recorder.finish(one, Ending("stop", "")), 10)
            assert recorder.recording(one.response_id) is None
            database.failures = 0


async def test_one_end_that_waits_for_storage_keeps_nobody_elses_log_waiting(database: Database, hub: Any) -> None:
    async with recording() as (recorder, one):
        database.refused, database.failure = "stop", OperationalError("database or disk is full")
        finishing = asyncio.create_task(recorder.finish(one, Ending("stop", "")))
        other = Response(trace=True)
        first = log.line(
            other.pk, Place(1, 1), ResponseInProgress, worker_id="w", model="m", fingerprint="f", sampling=m.Sampling()
        )
        recorder.open(Taken(other, 1, 0.0, [first]), Stop()).release("b")
        await until(lambda: database.lines)
        assert not finishing.done()
        database.refused = ""
        assert await asyncio.wait_for(finishing, 10)


async def test_the_end_is_told_only_once_it_is_stored(database: Database, hub: Any) -> None:
    database.delay_s = 0.2
    async with recording() as (recorder, one):
        one.release("a")
        finishing = asyncio.create_task(recorder.finish(one, Ending("stop", "a")))
        await until(lambda: len(hub()) == 2)
        assert database.ending is None
        assert await finishing
        await until(lambda: len(hub()) == 3)
    assert hub()[-1].type == "response.completed"


async def test_a_response_that_was_taken_over_is_stopped(database: Database, hub: Any) -> None:
    database.ours = False
    async with recording() as (recorder, one):
        one.release("a")
        await until(lambda: one.stop.reason == "worker_lost")
        assert recorder.recording(one.response_id) is None


async def test_an_answer_ends_before_it_outgrows_the_message_of_its_end(database: Database, hub: Any) -> None:
    wide = "\n" + "\x01" * 80  # one token can say so much, and a bias can have the model say nothing else
    async with recording() as (recorder, one):
        while one.stop.reason is None:
            one.release(wide)
        await recorder.finish(one, Ending("length", one.text))
    assert one.stop.reason == "length"
    assert settings.MAX_ANSWER_BYTES < len(database.lines[-1].text) < settings.MAX_MESSAGE_BYTES


async def test_without_trace_only_text_is_recorded(database: Database, hub: Any) -> None:
    async with recording(trace=False) as (recorder, one):
        one.trace(ResponseInProgress, worker_id="", model="", fingerprint="", sampling=m.Sampling())
        one.release("a")
        await recorder.finish(one, Ending("stop", "a"))
    assert [line.type for line in database.lines] == ["response.output_text.delta", "response.completed"]
