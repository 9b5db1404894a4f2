"""What models differ in, all at once in one tiny decoder: its numbers keep to themselves, and its views show them."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from inference.cache import KVCache, ResidualPool
from inference.checkpoint import Checkpoint, LayerKind, Rotary
from inference.checkpoint.rotary import LinearScaling, YarnScaling
from inference.engine import Engine
from inference.model.clock import multiply_adds
from inference.model.decoder import Decoder
from inference.views import rebuild
from inference.views.view import View
from tests.inference.sequences import Sequencer, new_sequence
from tests.inference.tiny import CONFIG, RandomWeights, byte_tokenizer, decoder_of, request
from tests.inference.tiny import run as run_all
from tests.inference.watched import Run, watched_run

WINDOW = 7
STRETCHED = Rotary(10000.0, YarnScaling(factor=4.0, original_context=64, attention_factor=1.25))
VARIED = replace(
    CONFIG,
    layers=(
        LayerKind(STRETCHED, WINDOW),
        LayerKind(None),
        LayerKind(Rotary(5000.0, LinearScaling(8.0))),
        LayerKind(STRETCHED, WINDOW),
    ),
    n_heads=4,
    n_kv_heads=2,
    score_divisor=3.0,
    activation="gelu_tanh",
    embedding_multiplier=4.0,
    qkv_bias=True,
    output_bias=True,
    feed_forward_bias=True,
    query_key_norm=True,
    post_norm=True,
)
PROMPT = list(b"the cat and the dog and the cow")
LAST = len(PROMPT) - 1
TURNED, UNTURNED = 0, 1
"""Layers with and without rotary positions; the first looks through a window, the second at everything."""


@pytest.fixture(scope="module")
def run() -> Run:
    return watched_run(decoder_of(VARIED), PROMPT)


def numbers(view: View, name: str) -> NDArray[np.float64]:
    return view.tensors[name].astype(np.float64)


def rms_norm(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    """With the weights of ones that tiny decoders have."""
    normed: NDArray[np.float64] = vector / np.sqrt(np.mean(vector**2) + VARIED.rms_epsilon)
    return normed


def test_logits_alone_and_in_a_crowd_are_bit_equal() -> None:
    decoder = decoder_of(VARIED)
    prompts = [PROMPT, PROMPT[3:12], PROMPT[:1]]
    alone = [new_sequence(decoder, num_blocks=1) for _ in prompts]
    expected = [sequence.feed(prompt) for sequence, prompt in zip(alone, prompts, strict=True)]
    cache, residuals = KVCache(VARIED, 4), ResidualPool(VARIED, 4)
    crowd = [Sequencer(decoder, cache, residuals, [block]) for block in (3, 0, 2)]
    pieces = prompts
    for _ in range(12):
        chunks = [sequence.chunk(piece) for sequence, piece in zip(crowd, pieces, strict=True)]
        for one, other in zip(expected, decoder.forward(chunks, cache, residuals), strict=True):
            assert torch.equal(one, other)
        pieces = [[int(logits.argmax())] for logits in expected]
        expected = [sequence.feed(token) for sequence, token in zip(alone, pieces, strict=True)]


def test_answers_alone_and_in_a_full_engine_are_the_same_to_the_last_bit() -> None:
    def engine(num_blocks: int) -> Engine:
        cache, residuals = KVCache(VARIED, num_blocks), ResidualPool(VARIED, num_blocks)
        return Engine(decoder_of(VARIED), byte_tokenizer(), cache, residuals)

    text = "the cat and the dog and the cow " * 5
    asked = [request(str(n), text[n:], owner=str(n % 2), max_tokens=20, seed=n) for n in range(5)]
    asked.append(request("again", text, owner="0", max_tokens=20, seed=0))  # reuses a cut of the first
    crowded = run_all(engine(num_blocks=11), *asked)
    for one in asked:
        assert crowded[one.response_id].numbers == run_all(engine(num_blocks=4), one)[one.response_id].numbers


@pytest.mark.parametrize("kernel", ["auto", "int8", "bfloat16"])
def test_sizes_that_no_packed_kernel_holds_are_computed_by_another(kernel: str) -> None:
    checkpoint = Checkpoint(path=Path(__file__), name="odd", config=VARIED, source=RandomWeights(VARIED))
    decoder = Decoder.load(checkpoint, device="cpu", kernel=kernel)
    logits = new_sequence(decoder, num_blocks=1).feed(PROMPT)
    exact = new_sequence(decoder_of(VARIED), num_blocks=1).feed(PROMPT)
    assert float((logits - exact).norm() / exact.norm()) < 0.1


def test_a_rebuilt_response_is_the_run_itself(run: Run) -> None:
    again, length = rebuild(run.trace), run.trace.length
    for layer in range(VARIED.n_layers + 1):
        assert torch.equal(again.states(layer, 0, length), run.trace.states(layer, 0, length))


def test_maps_are_what_the_running_attention_weighed_and_end_at_the_window(run: Run) -> None:
    for layer, kind in enumerate(VARIED.layers):
        for head in range(VARIED.n_heads):
            weights = run.view("attention", layer=layer, head=head).tensors["weights"]
            for position, row in enumerate(weights):
                expected = run.weights[layer, position][head].numpy()
                assert np.abs(row[: len(expected)] - expected).max() <= 1e-5
                first = 0 if kind.window is None else max(0, position + 1 - kind.window)
                assert np.flatnonzero(row).tolist() == list(range(first, position + 1))


def test_mask_says_its_window_and_counts_by_it(run: Run) -> None:
    view = run.view("mask", layer=TURNED, position=LAST)
    assert (view.info["window"], view.info["num_allowed"]) == (WINDOW, WINDOW)
    assert view.info["num_forbidden"] == view.info["num_positions"] - WINDOW
    assert np.flatnonzero(view.tensors["allowed"]).tolist() == list(range(LAST + 1 - WINDOW, LAST + 1))
    assert np.isneginf(view.tensors["after"][: LAST + 1 - WINDOW]).all()
    unbounded = run.view("mask", layer=UNTURNED, position=LAST).info
    assert (unbounded["window"], unbounded["num_allowed"]) == (None, LAST + 1)


def test_queries_and_keys_are_shown_as_projected_as_normalised_and_as_turned(run: Run) -> None:
    made, turned = (run.view(slug, layer=TURNED, head=3, position=LAST) for slug in ("qkv", "positions"))
    assert made.info["bias"]
    for name in ("q", "k"):
        normed = rms_norm(numbers(made, name))
        assert numbers(made, f"{name}_normed") == pytest.approx(normed, abs=1e-5)
        assert numbers(turned, f"{name}_before") == pytest.approx(normed, abs=1e-5)
        before, after = (numbers(turned, f"{name}_{when}").view(np.complex128) for when in ("before", "after"))
        turns = turned.info["magnitude"] * np.exp(1j * turned.tensors["angles"])
        assert after == pytest.approx(before * turns, abs=1e-5)
    assert (turned.info["base"], turned.info["scaling"], turned.info["magnitude"]) == (10000.0, "yarn", 1.25)


def test_a_layer_without_positions_turns_nothing(run: Run) -> None:
    view = run.view("positions", layer=UNTURNED, position=LAST)
    assert (view.info["base"], view.info["magnitude"]) == (None, 1.0)
    assert not view.tensors["angles"].any()
    assert np.array_equal(view.tensors["q_before"], view.tensors["q_after"])


def test_scores_are_divided_by_the_models_own_divisor(run: Run) -> None:
    view = run.view("scale", layer=2, position=LAST)
    assert view.info["divisor"] == 3.0
    assert numbers(view, "scaled") == pytest.approx(numbers(view, "raw") / 3, rel=1e-6)


def test_states_add_up_layer_by_layer_as_the_run_recorded_them(run: Run) -> None:
    for layer in range(VARIED.n_layers):
        view = run.view("residual_norm", layer=layer, position=LAST)
        assert view.info["recorded_difference"] <= 1e-5
        update = run.view("heads", layer=layer, position=LAST)
        assert np.array_equal(update.tensors["update"], view.tensors["attention_update"])
        assert rms_norm(numbers(update, "projected")) == pytest.approx(numbers(update, "update"), abs=1e-5)


def test_the_first_state_is_the_row_times_the_multiplier(run: Run) -> None:
    view = run.view("embeddings", position=5)
    assert view.info["multiplier"] == 4.0
    state = run.trace.states(0, 5, 6)[0].numpy()
    assert state == pytest.approx(4 * view.tensors["row"])


def test_neurons_follow_the_models_own_activation(run: Run) -> None:
    view = run.view("feed_forward", layer=1, position=LAST)
    assert view.info["activation"] == "gelu_tanh"
    gate, up = numbers(view, "gate"), numbers(view, "up")
    bent = gate / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (gate + 0.044715 * gate**3)))
    assert numbers(view, "activation") == pytest.approx(bent * up, abs=1e-5)
    states = run.view("residual_norm", layer=1, position=LAST)
    assert numbers(view, "output") == pytest.approx(numbers(states, "feed_forward_update"), abs=1e-5)


def test_multiply_adds_count_no_pair_outside_the_window() -> None:
    context = 3 * WINDOW
    pairs = sum(2 * min(position + 1, WINDOW) + 2 * (position + 1) for position in range(context))
    assert multiply_adds(VARIED, context, context)["scores"] == pairs * VARIED.query_width
    pieces = [multiply_adds(VARIED, count, end)["scores"] for count, end in ((4, 4), (6, 10), (1, 11), (10, context))]
    assert sum(pieces) == pairs * VARIED.query_width


def test_a_logit_is_the_sum_of_its_parts(run: Run) -> None:
    view = run.view("attribution", position=LAST)
    assert view.tensors["biases"].shape == (VARIED.n_layers,)
    assert abs(view.info["rounding"]) <= 1e-5 * view.info["sum_of_sizes"]
    assert sum(float(tensor.sum()) for tensor in view.tensors.values()) == pytest.approx(view.info["logit"], abs=1e-4)
