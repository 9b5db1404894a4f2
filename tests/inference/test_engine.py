"""The step loop on a tiny random decoder: a response is the same alone and in any crowd, and nothing dies."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from hypothesis import event, given, settings
from hypothesis import strategies as st

from inference.cache import KVCache, ResidualPool
from inference.engine import Engine
from inference.messages import Continue, FromEngine, Generate, Held, Sampling, Steps
from inference.model.clock import multiply_adds
from inference.model.decoder import Decoder
from inference.text import ChatTemplate, Message, Tokenizer
from tests.inference.conftest import DATA, MODEL
from tests.inference.tiny import CONFIG, END, Outcome, alone, collect, drain, request, run, tiny_decoder, tiny_engine

CASES = json.loads((Path(__file__).parents[1] / "reference/reference.json").read_text())["cases"]
LONG = "the cat and the dog and the " * 10


def test_a_response_is_told_in_order() -> None:
    engine = tiny_engine()
    engine.submit(request("a", LONG, max_tokens=3))
    kinds = [type(message).__name__ for message in drain(engine)]
    assert kinds == ["Started", "Prefilled", "Steps", "Steps", "Steps", "Ended"]
    outcome = run(tiny_engine(), request("a", LONG, max_tokens=3))["a"]
    assert [step.step for step in outcome.steps] == [0, 1, 2]
    assert outcome.end.token_ids == outcome.token_ids
    assert outcome.end.finish == "length"
    (prefilled,) = outcome.prefilled
    assert (prefilled.num_computed, prefilled.num_reused, prefilled.num_cuts) == (len(LONG), 0, 3)
    assert sum(stage.duration_ms or 0 for stage in prefilled.stages) <= prefilled.duration_ms
    assert [i for i, _ in prefilled.logits["top"]] == [row.id for row in outcome.steps[0].candidates[:10]]


def test_the_multiply_adds_of_the_cuts_add_up_to_those_of_one_pass() -> None:
    (prefilled,) = alone(request("a", LONG)).prefilled
    counted = {stage.stage: stage.multiply_adds for stage in prefilled.stages if stage.multiply_adds}
    assert counted == multiply_adds(CONFIG, len(LONG), len(LONG))


# ---------------------------------------------------------------- the crowd


arrivals = st.lists(
    st.tuples(
        st.integers(0, 6),  # the step before which it comes
        st.sampled_from([1, 60, 64, 122, 127, 128, 129, 188, 256, 300]),  # prompt length
        st.integers(1, 12),  # max_tokens
        st.sampled_from([0.0, 1.0]),
        st.integers(0, 2),  # seed, which also picks the prompt: equal prefixes are common
        st.one_of(st.none(), st.integers(0, 8)),  # steps after which it is cancelled
        st.sets(st.integers(0, 5), max_size=2),  # its breakpoints
    ),
    min_size=1,
    max_size=6,
)


Arrival = tuple[int, int, int, float, int, int | None, set[int]]
HELD_STEPS = 3


def arrival_request(number: int, arrival: Arrival) -> Generate:
    _, length, max_tokens, temperature, seed, _, breakpoints = arrival
    prompt = [(31 * i * (seed + 1)) % 250 for i in range(length)]
    sampling: dict[str, Any] = {"max_tokens": max_tokens, "temperature": temperature, "seed": seed}
    return request(str(number), prompt, breakpoints=breakpoints, **sampling)


@settings(max_examples=25, deadline=None)
@given(
    arrivals,
    st.sampled_from([5, 6, 9, 40]),
    st.sampled_from([0, 4, 40]),
    st.sampled_from([0, 6, 40]),
    st.sampled_from([2, 8]),
)
def test_every_response_equals_itself_alone(
    coming: list[Arrival], num_blocks: int, num_traced: int, num_aside: int, max_running: int
) -> None:
    engine = tiny_engine(num_blocks, num_traced=num_traced, num_aside=num_aside, max_running=max_running)
    requests = {i: arrival_request(i, arrival) for i, arrival in enumerate(coming)}
    messages: list[FromEngine] = []
    going_on: dict[int, list[Held]] = defaultdict(list)
    for step in range(250):
        for held in going_on[step]:
            engine.proceed(Continue(held.response_id, sorted(coming[int(held.response_id)][6])))
        for i, arrival in enumerate(coming):
            if arrival[0] == step:
                engine.submit(requests[i])
            if arrival[5] is not None and arrival[0] + arrival[5] == step:
                engine.cancel(str(i))
        told = engine.step()
        going_on[step + HELD_STEPS] += [message for message in told if isinstance(message, Held)]
        messages += told
    assert not engine.has_work
    outcomes = collect(messages)
    event(f"{sum(told.name == 'preempted' for one in outcomes.values() for told in one.end.events)} preempted")
    for i, arrival in enumerate(coming):
        outcome, expected = outcomes[str(i)], alone(msgspec.structs.replace(requests[i], breakpoints=[]))
        if outcome.end.finish != "cancelled":
            assert outcome.numbers == expected.numbers
            assert outcome.end.finish == expected.end.finish
            assert outcome.held == sorted(step for step in arrival[6] if step < len(outcome.steps) - 1)
        else:
            assert arrival[5] is not None
            assert outcome.numbers == expected.numbers[: len(outcome.steps)]
            assert expected.text.startswith(outcome.text)
    assert engine.scheduler.num_available == num_blocks


def test_a_seeded_response_beside_an_unseeded_one_is_the_same_every_time() -> None:
    seeded = request("seeded", "a b c", seed=5)
    expected = alone(seeded).numbers
    for other_seed in range(4):
        assert run(tiny_engine(), request("other", LONG, seed=100 + other_seed), seeded)["seeded"].numbers == expected


def test_two_responses_keep_their_own_text() -> None:
    one, other = request("one", "first", max_tokens=20), request("other", "second", max_tokens=20)
    outcomes = run(tiny_engine(), one, other)
    assert outcomes["one"].text == alone(one).text
    assert outcomes["other"].text == alone(other).text
    assert outcomes["one"].text != outcomes["other"].text
    assert any(step.batch_size == 2 for step in outcomes["one"].steps)  # how soon is a matter of time


def test_preempted_responses_have_the_text_they_have_alone() -> None:
    requests = [request(str(i), [*([9] * 140), i], max_tokens=120, seed=i) for i in range(6)]
    engine = tiny_engine(8, num_aside=40)
    outcomes = run(engine, *requests)
    events = {name: [event.name for event in outcome.end.events] for name, outcome in outcomes.items()}
    assert sum("preempted" in told for told in events.values()) >= 2
    for one in requests:
        outcome = outcomes[one.response_id]
        assert outcome.numbers == alone(one).numbers
        told = [event for event in events[one.response_id] if event not in ("preempted", "resumed")]
        assert told == ["queued", "scheduled", "first_token", "finished"]
        times = [event.at_ms for event in outcome.end.events]
        assert times == sorted(times)
    assert events["0"].count("preempted") == 0, "the oldest keeps its place"
    assert engine.scheduler.num_available == 8


# ---------------------------------------------------------------- ends


def test_stop_strings_end_the_text_before_them() -> None:
    free = alone(request("a", "abc", max_tokens=30, temperature=0))
    stop = free.text[10:14]
    outcome = alone(request("a", "abc", max_tokens=30, temperature=0, stop=[stop]))
    assert (outcome.end.finish, outcome.end.stop) == ("stop", stop)
    assert outcome.text == free.text[: free.text.index(stop)]
    assert len(outcome.steps) < 30


def test_an_end_token_ends_without_text() -> None:
    outcome = alone(request("a", "abc", logit_bias={256: 100}))
    assert (outcome.end.finish, outcome.end.stop, outcome.text) == ("stop", "<|end|>", "")
    assert outcome.token_ids == [256]


def test_a_held_back_beginning_of_a_stop_string_is_released_by_the_end() -> None:
    forced = {ord("x"): 100.0}
    outcome = alone(request("a", "abc", logit_bias=forced, max_tokens=2, stop=["xxxx"]))
    assert [step.text for step in outcome.steps] == ["", ""]
    assert [step.held_bytes for step in outcome.steps] == [1, 2]
    assert (outcome.end.text, outcome.end.finish) == ("xx", "length")


def test_the_answer_is_cut_to_the_context_and_says_so() -> None:
    outcome = alone(request("a", [1] * (CONFIG.context_length - 3), max_tokens=100, logit_bias={65: 100}))
    assert outcome.started[0].max_tokens == 3
    assert len(outcome.steps) == 3
    assert outcome.end.finish == "length"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"token_ids": []}, "prompt is empty"),
        ({"token_ids": [1] * 512}, "512 tokens; at most 511"),
        ({"token_ids": [260]}, "from 0 to 259"),
        ({"token_ids": [-1]}, "from 0 to 259"),
        ({"seed": None}, "seed"),
        ({"temperature": -1.0}, "temperature"),
        ({"stop": [""]}, "stop"),
    ],
)
def test_what_cannot_be_answered_ends_with_the_reason_and_the_engine_lives(
    changes: dict[str, Any], reason: str
) -> None:
    engine = tiny_engine()
    prompt = changes.pop("token_ids", [1, 2])
    outcomes = run(engine, request("bad", prompt, **changes), request("good", "abc"))
    assert outcomes["bad"].end.finish == "error"
    assert reason in (outcomes["bad"].end.error or "")
    assert outcomes["bad"].steps == []
    assert outcomes["good"].numbers == alone(request("good", "abc")).numbers


@pytest.mark.parametrize(("num_blocks", "capacity"), [(3, 192), (32, CONFIG.context_length)])
def test_what_the_engine_says_fits_is_what_it_takes(num_blocks: int, capacity: int) -> None:
    engine = tiny_engine(num_blocks)
    assert engine.ready({"context_length": CONFIG.context_length}, None).capacity == capacity
    most = run(engine, request("most", [65] * (capacity - 1)), request("more", [65] * capacity))
    assert (most["most"].end.finish, len(most["most"].steps)) == ("length", 1)
    assert f"{capacity} tokens; at most {capacity - 1} fit" in (most["more"].end.error or "")


def test_a_response_submitted_twice_is_answered_once() -> None:
    outcome = run(tiny_engine(), request("a", "abc"), request("a", "abc"))["a"]
    assert outcome.numbers == alone(request("a", "abc")).numbers
    assert outcome.end.finish == "length"


# ---------------------------------------------------------------- cancel


def cancelled_after(engine: Engine, steps: int) -> Outcome:
    messages = [message for _ in range(steps) for message in engine.step()]
    engine.cancel("a")
    assert engine.scheduler.num_available == 32
    messages += engine.step()
    outcome = collect(messages)["a"]
    assert outcome.end.finish == "cancelled"
    assert not engine.has_work
    return outcome


def test_cancel_in_the_middle_stops_the_counter_and_frees_the_blocks() -> None:
    engine = tiny_engine()
    engine.submit(request("a", "abc", max_tokens=100))
    outcome = cancelled_after(engine, 5)
    assert len(outcome.steps) == 5
    assert outcome.end.token_ids == outcome.token_ids


def test_cancel_between_two_cuts_of_the_prompt() -> None:
    engine = tiny_engine()
    engine.submit(request("a", LONG))
    outcome = cancelled_after(engine, 1)
    assert (outcome.steps, outcome.end.num_blocks) == ([], 2)


def test_cancel_while_queued_and_before_anything() -> None:
    engine = tiny_engine(max_running=1)
    engine.submit(request("first", "abc", max_tokens=5))
    engine.submit(request("a", "abc"))
    engine.step()
    engine.cancel("a")
    engine.cancel("unknown")
    outcomes = collect(drain(engine))
    assert (outcomes["a"].end.finish, outcomes["a"].steps) == ("cancelled", [])
    assert outcomes["first"].end.finish == "length"
    engine.submit(request("a", "abc"))
    cancelled_after(engine, 0)


# ---------------------------------------------------------------- given tokens


def test_given_tokens_are_taken_as_they_are_and_measured_like_drawn_ones() -> None:
    whole = alone(request("a", LONG))
    same = alone(request("a", LONG, given=whole.token_ids[:5]))
    assert same.numbers == whole.numbers
    assert [step.given for step in same.steps] == [True] * 5 + [False] * 3
    other = next(row.id for row in whole.steps[3].candidates if row.id != whole.token_ids[3])
    branch = alone(request("b", LONG, given=[*whole.token_ids[:3], other]))
    assert branch.numbers[:3] == whole.numbers[:3]
    assert (branch.steps[3].token, branch.steps[3].given) == (other, True)
    assert branch.steps[3].candidates[:10] == whole.steps[3].candidates[:10], "the same logits"
    assert branch.steps[3].ledger == whole.steps[3].ledger
    chosen = next(row for row in branch.steps[3].candidates if row.id == other)
    assert branch.steps[3].raw_logprob == pytest.approx(math.log(chosen.raw_probability), abs=1e-4)
    assert len(branch.steps) == 8


def test_a_given_token_that_the_filters_removed_has_no_logprob_and_one_that_ends_ends() -> None:
    whole = alone(request("a", LONG, temperature=0.0))
    other = whole.steps[0].candidates[4].id
    (step, *_) = alone(request("b", LONG, temperature=0.0, given=[other])).steps
    assert (step.logprob, step.rank, step.given) == (None, 4, True)
    ended = alone(request("c", LONG, given=[whole.token_ids[0], END]))
    assert (ended.end.finish, len(ended.steps)) == ("stop", 2)
    refused = alone(request("d", LONG, given=[-1]))
    assert (refused.end.finish, refused.steps) == ("error", [])


def test_steps_tell_how_full_the_engine_is() -> None:
    engine = tiny_engine(max_running=1)
    engine.submit(request("a", "abc", max_tokens=2))
    engine.submit(request("b", "abc"))
    steps = next(message for message in engine.step() if isinstance(message, Steps))
    assert (steps.num_running, steps.num_waiting, steps.num_free_blocks) == (1, 1, 31)


# ---------------------------------------------------------------- trouble


def test_logits_that_are_not_numbers_end_that_response_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    embedding = tiny_decoder().embedding.clone()
    embedding[200] = torch.nan
    engine = tiny_engine()
    monkeypatch.setattr(tiny_decoder(), "embedding", embedding)  # the output head keeps the sound one
    outcomes = run(engine, request("bad", [1, 200]), request("good", "abc"))
    assert outcomes["bad"].end.finish == "error"
    assert "not finite" in (outcomes["bad"].end.error or "")
    assert "in the embedding of position 1" in (outcomes["bad"].end.error or "")
    assert outcomes["bad"].steps == []
    assert outcomes["good"].end.finish == "length"
    assert engine.scheduler.find("bad") is None


@pytest.mark.parametrize(
    ("part", "record", "place"),
    [
        ("feed_forward.down", True, "in layer 0, at position 0"),
        ("feed_forward.down", False, "in layer 0 or the keys and values of layer 1, at position 0"),
        ("attention.qkv", True, "in layer 0, at position 0"),
        ("head", True, "in the output head"),
        ("head", False, "in layer 1 or the output head"),
    ],
)
def test_the_layer_is_named_where_a_number_first_was_none(
    monkeypatch: pytest.MonkeyPatch, part: str, record: bool, place: str
) -> None:
    engine = tiny_engine()
    run(engine, request("before", LONG))
    linear: Any = engine.decoder if part == "head" else engine.decoder.layers[0]
    for name in part.split("."):
        linear = getattr(linear, name)
    with monkeypatch.context() as broken:
        weight = linear.weight.clone()
        weight[0, 0] = torch.nan
        broken.setattr(linear, "weight", weight)
        assert place in (run(engine, request("bad", "abc", record=record))["bad"].end.error or "")
    assert run(engine, request("good", LONG))["good"].numbers == alone(request("good", LONG)).numbers


def test_a_failing_pass_ends_its_responses_and_the_engine_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = tiny_engine()
    engine.submit(request("a", "abc"))
    engine.step()
    with monkeypatch.context() as broken:
        broken.setattr(tiny_decoder(), "forward", lambda *_: (_ for _ in ()).throw(RuntimeError("out of memory")))
        outcome = collect(engine.step())["a"]
    assert (outcome.end.finish, outcome.end.error) == ("error", "out of memory")
    assert run(engine, request("b", "abc"))["b"].end.finish == "length"


# ---------------------------------------------------------------- the real checkpoint


def test_the_reference_answer_comes_out_as_text(decoder_float32: Decoder) -> None:
    case = CASES[0]
    tokenizer = Tokenizer.load(DATA / "models" / MODEL, DATA / "cache")
    cache, residuals = KVCache(decoder_float32.config, 2), ResidualPool(decoder_float32.config, 2)
    messages = [Message.of(message["role"], message["content"]) for message in case["messages"]]
    prompt = [t for s in ChatTemplate(tokenizer).render(messages) for t in s.token_ids]
    sampling = Sampling(temperature=0, seed=1, max_tokens=len(case["greedy_32"]))
    asked = Generate("a", prompt, sampling, tokenizer.end_ids, "o", record=True)
    outcome = run(Engine(decoder_float32, tokenizer, cache, residuals), asked)["a"]
    assert outcome.token_ids == case["greedy_32"]
    assert outcome.text == case["greedy_text"]
    assert [row.id for row in outcome.steps[0].candidates] == case["top10"]["ids"]
    probabilities = [row.raw_probability for row in outcome.steps[0].candidates]
    assert probabilities == pytest.approx(case["top10"]["probabilities"], abs=1e-4)
    assert outcome.steps[0].entropy == pytest.approx(case["entropy_nats"], abs=1e-3)
