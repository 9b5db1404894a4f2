"""The engine as a child process: messages both ways, deaths of either side, and the fake engine in it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from inference.fake import FakeEngine
from inference.messages import (
    Cancel,
    Embed,
    Embedded,
    Ended,
    FromEngine,
    Judge,
    Judged,
    Subject,
    ViewReply,
    ViewRequest,
)
from inference.process import EngineGone, EngineProcess
from inference.settings import BadSetting, EngineSettings
from tests.inference.tiny import Outcome, byte_tokenizer, collect, request, run

TEXT = "Stimmt, 👩‍👩‍👧 sagt 한국어."
FAST = replace(EngineSettings.from_environment(), engine="fake", fake_text=TEXT, fake_rate=1000.0)


@asynccontextmanager
async def engine(settings: EngineSettings = FAST) -> AsyncIterator[EngineProcess]:
    process = await EngineProcess.start(settings)
    try:
        await process.ready()
        yield process
    finally:
        await process.stop()


async def until_ended(process: EngineProcess, name: str = "a") -> Outcome:
    messages: list[FromEngine] = []
    async for message in process:
        messages.append(message)
        if isinstance(message, Ended) and message.response_id == name:
            break
    return collect(messages)[name]


async def test_a_response_over_the_pipe() -> None:
    async with engine() as process:
        ready = await process.ready()
        assert ready.model["name"] == ready.fingerprint == "fake"
        await process.send(request("a", [1, 2, 3], max_tokens=100))
        outcome = await until_ended(process)
    assert outcome.text == TEXT
    assert outcome.end.finish == "stop"
    assert outcome.prefilled[0].num_computed == 3
    assert any(step.held_bytes for step in outcome.steps)
    assert all("�" not in step.token_text for step in outcome.steps)


async def test_cancel_ends_at_once_and_another_goes_on() -> None:
    async with engine(replace(FAST, fake_text=TEXT * 50, fake_rate=200.0)) as process:
        await process.send(request("a", [1], max_tokens=5000))
        await process.send(request("b", [1], max_tokens=10))
        await process.send(Cancel("a"))
        messages: list[FromEngine] = []
        async for message in process:
            messages.append(message)
            if len([m for m in messages if isinstance(m, Ended)]) == 2:
                break
    outcomes = collect(messages)
    assert outcomes["a"].end.finish == "cancelled"
    assert len(outcomes["a"].steps) < 10
    assert (outcomes["b"].end.finish, len(outcomes["b"].steps)) == ("length", 10)


async def test_asides_are_answered() -> None:
    async with engine() as process:
        await process.send(Embed("1", ["a", "b"]))
        await process.send(Judge("2", ["a"]))
        await process.send(ViewRequest("3", "softmax", {}, Subject("a", "f", [1], 1)))
        replies: list[FromEngine] = []
        async for message in process:
            replies.append(message)
            if len(replies) == 3:
                break
    embedded, judged, viewed = replies
    assert isinstance(embedded, Embedded)
    assert [len(vector) for vector in embedded.embeddings] == [384, 384]
    assert isinstance(judged, Judged)
    assert max(judged.scores[0], key=judged.scores[0].__getitem__) == "other"
    assert isinstance(viewed, ViewReply)
    assert viewed.error


async def test_a_killed_child_is_noticed_and_another_can_be_started() -> None:
    process = await EngineProcess.start(replace(FAST, fake_text=TEXT * 50, fake_rate=100.0))
    await process.ready()
    await process.send(request("a", [1], max_tokens=5000))
    seen = 0
    async for _ in process:
        seen += 1
        if seen == 4:
            os.kill(process.pid, signal.SIGKILL)
    assert seen >= 4
    assert process.exit_reason == "The engine was killed by signal SIGKILL."
    with pytest.raises(EngineGone, match="SIGKILL"):
        await process.send(Cancel("a"))
    await process.stop()
    async with engine() as another:
        await another.send(request("a", [1]))
        assert (await until_ended(another)).end.finish == "length"


async def test_an_interrupt_is_the_parents_business() -> None:
    async with engine() as process:
        os.kill(process.pid, signal.SIGINT)
        await process.send(request("a", [1], max_tokens=100))
        assert (await until_ended(process)).text == TEXT
        assert os.getpgid(process.pid) != os.getpgid(0)


async def test_stopping_is_orderly() -> None:
    process = await EngineProcess.start(FAST)
    await process.ready()
    await process.stop()
    assert process.exit_reason == "The engine ended with status 0."


async def test_a_start_that_fails_says_why(tmp_path: Path) -> None:
    process = await EngineProcess.start(replace(FAST, model=tmp_path / "missing.gguf"))
    with pytest.raises(EngineGone, match=r"No checkpoint at .*missing\.gguf"):
        await process.ready()
    await process.stop()


def test_the_child_dies_with_its_parent() -> None:
    parent = """
import asyncio, os
from inference.process import EngineProcess
from tests.inference.test_process import FAST
async def main():
    process = await EngineProcess.start(FAST)
    await process.ready()
    print(process.pid, flush=True)
    os._exit(1)
asyncio.run(main())
"""
    ran = subprocess.run([sys.executable, "-c", parent], capture_output=True, text=True, timeout=60, check=False)
    pid = int(ran.stdout)
    watched = None
    with suppress(ProcessLookupError):
        watched = os.pidfd_open(pid)
    if watched is not None:
        readable, _, _ = select.select([watched], [], [], 10)
        assert readable, "the child is still there"


def test_the_workers_side_and_the_fake_engine_need_no_torch() -> None:
    code = "import sys, inference.process, inference.fake, inference.parameters; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_settings_survive_the_environment() -> None:
    assert EngineSettings.from_environment(FAST.to_environment()) == FAST
    wrong = {"ENGINE": "real", "CACHE_MEMORY": "much", "TRACE_MEMORY": "-1", "THREADS": "1.5", "FAKE_RATE": "inf"}
    for name, value in wrong.items():
        with pytest.raises(BadSetting, match=f"WEBTRACE_{name}"):
            EngineSettings.from_environment({f"WEBTRACE_{name}": value})


def test_a_list_of_checkpoints_makes_an_engine_for_each(tmp_path: Path) -> None:
    folder = tmp_path / "Qwen2.5-tiny"
    folder.mkdir()
    odd = tmp_path / "me@home.gguf"
    odd.touch()
    listed = {"WEBTRACE_MODEL": f"/m/a.gguf@int4, /m/a.gguf@float32,{folder},{odd}", "WEBTRACE_KERNEL": "int8"}
    engines = EngineSettings.all_from_environment(listed)
    assert [engine.model_name for engine in engines] == ["a@int4", "a@float32", "Qwen2.5-tiny", "me@home"]
    assert [engine.kernel for engine in engines] == ["int4", "float32", "int8", "int8"]
    assert [EngineSettings.from_environment(engine.to_environment()) for engine in engines] == engines
    assert len(EngineSettings.all_from_environment({})) == 1


@pytest.mark.parametrize(
    ("listed", "problem"),
    [("/m/a.gguf,,/m/b.gguf", "an empty place"), ("/m/a.gguf,/n/a.gguf", "names a twice")],
)
def test_a_list_that_cannot_be_told_apart_is_refused(listed: str, problem: str) -> None:
    with pytest.raises(BadSetting, match=f"WEBTRACE_MODEL .*{problem}"):
        EngineSettings.all_from_environment({"WEBTRACE_MODEL": listed})


def test_the_fake_engine_honours_stops_and_limits() -> None:
    fake = FakeEngine(byte_tokenizer(), "one two three", 10_000)
    outcomes = run(fake, request("a", [1], max_tokens=100, stop=["two"]), request("b", [1], max_tokens=3))
    assert (outcomes["a"].text, outcomes["a"].end.stop) == ("one ", "two")
    assert (outcomes["b"].text, outcomes["b"].end.finish) == ("one", "length")
