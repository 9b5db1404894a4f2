"""A response held by the engine: it takes no step, others do, and its time is left out."""

from __future__ import annotations

from typing import Any

import pytest

from inference.engine import Engine
from inference.messages import Continue, FromEngine, Held
from tests.inference.tiny import alone, collect, drain, request, run, tiny_engine

LONG = "the cat and the dog and the " * 10


def held_after(engine: Engine, step: int, **more: Any) -> list[FromEngine]:
    """Response `a` and what it told until it was held after this step."""
    engine.submit(request("a", "abc", breakpoints=[step], **more))
    messages: list[FromEngine] = []
    while not any(isinstance(message, Held) for message in messages):
        messages += engine.step()
    return messages


def test_a_held_response_takes_no_step_while_another_runs_and_then_goes_on() -> None:
    engine = tiny_engine(max_running=1)
    messages = held_after(engine, 2)
    assert not engine.has_work, "nothing is computed for it"
    other = run(engine, request("b", LONG))["b"]
    assert other.numbers == alone(request("b", LONG)).numbers
    assert len(collect(messages)["a"].steps) == 3
    engine.proceed(Continue("a", [4]))
    engine.proceed(Continue("unknown"))
    messages += drain(engine)
    engine.proceed(Continue("a"))
    outcome = collect([*messages, *drain(engine)])["a"]
    assert outcome.held == [2, 4]
    assert outcome.numbers == alone(request("a", "abc")).numbers


def test_a_held_response_keeps_its_blocks_and_the_queue_waits_for_them() -> None:
    engine = tiny_engine(3)
    held_after(engine, 0, max_tokens=100)
    engine.submit(request("b", "abc", max_tokens=100))
    assert not engine.has_work, "stepping would only burn time"
    engine.proceed(Continue("a"))
    assert collect(drain(engine))["b"].end.finish == "length"


def test_a_cancel_ends_a_hold_and_time_held_is_not_decoding_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("inference.engine.monotonic", lambda: now[0])
    engine = tiny_engine()
    for going_on in (False, True):
        messages = held_after(engine, 1)
        now[0] += 60
        if going_on:
            engine.proceed(Continue("a"))
        else:
            engine.cancel("a")
        outcome = collect([*messages, *drain(engine)])["a"]
        assert outcome.end.finish == ("length" if going_on else "cancelled")
        assert outcome.end.decode_ms == 0
    assert engine.scheduler.num_available == 32


def test_a_breakpoint_at_the_last_token_holds_nothing() -> None:
    outcome = run(tiny_engine(), request("a", "abc", max_tokens=3, breakpoints=[2, 7]))["a"]
    assert (outcome.held, outcome.end.finish) == ([], "length")
