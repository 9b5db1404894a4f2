"""What is computed once is reused: prompts sent again, later turns, and what is recorded of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from inference.model.decoder import CUT
from inference.views import Trace, rebuild
from tests.inference.tiny import CONFIG, alone, request, run, tiny_decoder, tiny_engine

LONG = "the cat and the dog and the " * 10


def test_a_prompt_of_whole_blocks_sent_twice_is_reused_and_its_last_token_still_computed() -> None:
    prompt = [i % 200 for i in range(2 * CUT)]
    engine = tiny_engine()
    cold = run(engine, request("a", prompt))["a"]
    warm = run(engine, request("b", prompt))["b"]
    assert warm.numbers == cold.numbers
    assert (cold.end.num_prefix_tokens, warm.end.num_prefix_tokens) == (0, CUT)
    assert warm.prefilled[0].num_computed == CUT
    assert run(engine, request("c", prompt, owner="stranger"))["c"].end.num_prefix_tokens == 0


def test_a_tiny_cache_and_equal_prefixes_lose_nobody() -> None:
    requests = [request(str(i), [*([9] * 140), i], max_tokens=40, seed=i) for i in range(12)]
    outcomes = run(tiny_engine(5), *requests)
    for one in requests:
        assert outcomes[one.response_id].numbers == alone(one).numbers


def test_a_second_turn_computes_the_new_tokens_and_at_most_one_cut_beyond_them() -> None:
    engine = tiny_engine()
    first = run(engine, request("a", LONG, max_tokens=130))["a"]
    earlier, new = [*LONG.encode(), *first.token_ids], [10, 20, 30]
    second = run(engine, request("b", [*earlier, *new]))["b"]
    computed = second.prefilled[0].num_computed
    assert len(new) < computed <= len(new) + CUT
    assert second.end.num_prefix_tokens == len(earlier) + len(new) - computed
    assert second.started[0].decoded_prefix == [(len(LONG), 3 * CUT)]
    assert run(engine, request("c", [*earlier, *new], owner="stranger"))["c"].end.num_prefix_tokens == 0


def test_what_an_answer_wrote_and_a_later_prompt_reuses_is_close_to_reading_it_and_rebuilt_to_the_bit() -> None:
    engine = tiny_engine()
    first = run(engine, request("a", LONG, max_tokens=130))["a"]
    prompt = [*LONG.encode(), *first.token_ids, 10, 20, 30]
    warm, cold = run(engine, request("b", prompt))["b"], alone(request("b", prompt))
    assert warm.token_ids == cold.token_ids
    for one, other in zip(warm.steps, cold.steps, strict=True):
        assert one.raw_logprob == pytest.approx(other.raw_logprob, abs=1e-4)
    held = engine.scheduler.find("b")
    assert held is not None
    own = Trace(engine.decoder, engine.cache, engine.residuals, held.blocks, held.token_ids, len(prompt))
    again = rebuild(replace(own, blocks=(), decoded_prefix=warm.started[0].decoded_prefix))
    for layer in range(CONFIG.n_layers + 1):
        assert torch.equal(again.states(layer, 0, own.length), own.states(layer, 0, own.length))


def test_recording_asks_for_recorded_prefixes() -> None:
    engine = tiny_engine()
    run(engine, request("a", LONG, record=False))
    outcomes = run(engine, request("b", LONG, record=True))
    assert outcomes["b"].end.num_prefix_tokens == 0
    assert run(engine, request("c", LONG, record=False))["c"].end.num_prefix_tokens == 2 * CUT


def test_residuals_of_a_recorded_response_are_kept() -> None:
    engine = tiny_engine()
    outcome = run(engine, request("a", LONG))["a"]
    held = engine.scheduler.find("a")
    assert held is not None
    end = held.num_computed
    assert end == len(LONG) + len(outcome.steps) - 1
    states = engine.residuals.read(0, engine.residuals.slots(held.blocks, 0, end))
    assert torch.equal(states, tiny_decoder().embedding[held.token_ids[:end]])
