"""Prompts read beside running answers: in pieces of cuts, to the same numbers, and never for long."""

from __future__ import annotations

import pytest

from inference import pace
from inference.messages import Ended, FromEngine, Prefilled, Steps
from inference.model.decoder import CUT
from tests.inference.tiny import CONFIG, alone, collect, request, run, tiny_engine

LONG = [(7 * i + 3) % 250 for i in range(2 * CUT + 9)]


@pytest.fixture(autouse=True)
def half_a_layer_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """A running answer waits for no more than the half layer that is always read."""
    monkeypatch.setattr(pace, "SLOWDOWN", 0.0)


def test_a_running_answer_has_a_token_after_every_half_layer_of_a_prompt() -> None:
    engine = tiny_engine()
    engine.submit(request("running", "one", max_tokens=100))
    while not any(isinstance(message, Steps) for message in engine.step()):
        pass
    engine.submit(request("long", LONG, max_tokens=3))
    messages: list[FromEngine] = []
    while not any(isinstance(message, Prefilled) for message in messages):
        messages += engine.step()
    outcomes = collect(messages)
    assert outcomes["long"].prefilled[0].num_cuts == 3
    # Attention, then feed-forward of every layer; the step after the last computes the logits.
    assert len(outcomes["running"].steps) == 3 * (2 * CONFIG.n_layers + 1)
    engine.cancel("running")
    while engine.has_work:
        messages += engine.step()
    assert collect(messages)["long"].numbers == alone(request("long", LONG, max_tokens=3)).numbers


def test_with_nothing_beside_it_a_prompt_is_read_a_cut_a_step() -> None:
    engine = tiny_engine()
    engine.submit(request("long", LONG, max_tokens=1))
    assert [any(isinstance(m, Prefilled) for m in engine.step()) for _ in range(3)] == [False, False, True]


def test_a_cut_whose_response_is_cancelled_is_left_and_the_next_prompt_read() -> None:
    engine = tiny_engine()
    engine.submit(request("running", "one", max_tokens=200))
    engine.step()
    free = engine.scheduler.num_available
    engine.submit(request("cancelled", LONG))
    engine.step()
    engine.cancel("cancelled")
    other = request("other", LONG[::-1], max_tokens=3)
    outcomes = run(engine, other)
    assert outcomes["other"].numbers == alone(other).numbers
    assert outcomes["cancelled"].end.finish == "cancelled"
    assert engine.scheduler.num_available > free


@pytest.mark.parametrize("part", ["inference.reading.StageClock", "inference.engine.PrefillRecord.add"])
def test_what_fails_around_a_cut_ends_its_response_alone(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    """Before the first piece of a cut is computed, and when its numbers are taken."""
    engine = tiny_engine()
    engine.submit(request("running", "one", max_tokens=100))
    messages = engine.step()
    engine.submit(request("long", LONG))
    with monkeypatch.context() as broken:
        broken.setattr(part, lambda *_: (_ for _ in ()).throw(RuntimeError("no room for it")))
        while not any(isinstance(message, Ended) for message in messages):
            messages += engine.step()
    end = collect(messages)["long"].end
    assert (end.finish, end.error) == ("error", "no room for it")
    while engine.has_work:
        messages += engine.step()
    assert collect(messages)["running"].numbers == alone(request("running", "one", max_tokens=100)).numbers


def test_what_fails_in_the_choice_of_a_prompt_ends_all_that_are_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows whose fault it is; who was read last, and answers by now, is left alone."""
    engine = tiny_engine()
    running = request("running", "one", max_tokens=100)
    engine.submit(running)
    messages = engine.step()
    engine.submit(request("long", LONG))
    engine.submit(request("other", LONG))
    with monkeypatch.context() as broken:
        broken.setattr(engine.scheduler, "next_reading", lambda: (_ for _ in ()).throw(RuntimeError("no turn")))
        while sum(isinstance(message, Ended) for message in messages) < 2:
            messages += engine.step()
    while engine.has_work:
        messages += engine.step()
    outcomes = collect(messages)
    assert {outcomes[name].end.error for name in ("long", "other")} == {"no turn"}
    assert outcomes["running"].numbers == alone(running).numbers
