"""Ablation and attribution: a decoder really without a part, and a logit that is the sum of its parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from inference.checkpoint import Checkpoint
from inference.model.decoder import Decoder
from inference.query import QueryError
from tests.inference.sequences import new_sequence
from tests.inference.watched import LAST, PROMPT, STEPS, Run, changed_products

Product = Callable[[Tensor], Tensor]


def without(decoder: Decoder, heads: dict[int, list[int]], layers: list[int], feed_forwards: list[int]) -> Any:
    """The same decoder with these parts writing zeros."""
    width = decoder.config.head_width

    def change(layer: int, name: str, product: Product) -> Product:
        if name == "attention.output" and layer in layers:
            return lambda rows: product(rows) * 0
        if name == "feed_forward.down" and layer in (*layers, *feed_forwards):
            return lambda rows: product(rows) * 0
        if name == "attention.output" and layer in heads:
            return lambda rows: product(zeroed(rows, heads[layer]))
        return product

    def zeroed(rows: Tensor, off: list[int]) -> Tensor:
        rows = rows.clone()
        for head in off:
            rows[:, head * width : (head + 1) * width] = 0
        return rows

    return changed_products(decoder, change)


OFF = [
    ({"heads": "14:4"}, {14: [4]}, [], []),
    ({"heads": "3:0,3:8,20:5"}, {3: [0, 8], 20: [5]}, [], []),
    ({"layers": "29"}, {}, [29], []),
    ({"layers": "0", "feed_forwards": "5,6"}, {}, [0], [5, 6]),
]


@pytest.mark.parametrize(("asked", "heads", "layers", "feed_forwards"), OFF)
def test_what_is_off_everywhere_is_as_if_the_text_was_read_without_it(
    any_run: Run, asked: dict[str, Any], heads: dict[int, list[int]], layers: list[int], feed_forwards: list[int]
) -> None:
    decoder = any_run.trace.decoder
    with without(decoder, heads, layers, feed_forwards):
        expected = new_sequence(decoder, num_blocks=1).feed(any_run.trace.token_ids[: LAST + STEPS + 1])
    view = any_run.view("ablation", step=STEPS, everywhere=True, **asked)
    meets(any_run, view.tensors["logits"], expected[view.info["token_ids"]])
    assert view.info["everywhere"] is True


@pytest.mark.parametrize(("asked", "heads", "layers", "feed_forwards"), OFF)
def test_what_is_off_here_still_reads_what_the_run_wrote_before(
    any_run: Run, asked: dict[str, Any], heads: dict[int, list[int]], layers: list[int], feed_forwards: list[int]
) -> None:
    decoder, tokens = any_run.trace.decoder, any_run.trace.token_ids
    sequence = new_sequence(decoder, num_blocks=1)
    sequence.feed(PROMPT)
    for step in range(STEPS - 1):
        sequence.feed([tokens[LAST + 1 + step]])
    with without(decoder, heads, layers, feed_forwards):
        expected = sequence.feed([tokens[LAST + STEPS]])
    view = any_run.view("ablation", step=STEPS, token=260, **asked)
    shares = expected.softmax(-1)
    meets(any_run, view.tensors["logits"], expected[view.info["token_ids"]])
    assert view.tensors["probabilities"] == pytest.approx(shares[view.info["token_ids"]].numpy(), abs=5e-3)
    assert view.info["token_probability"] == pytest.approx(float(shares[260]), rel=0.1)
    before = any_run.logits[STEPS]
    assert np.array_equal(view.tensors["before_logits"], before[view.info["token_ids"]].numpy())
    assert {*before.topk(10).indices.tolist()} <= {*view.info["token_ids"]}
    divergence = float((before.softmax(-1) * (before.log_softmax(-1) - expected.log_softmax(-1))).sum())
    assert view.info["divergence"] == pytest.approx(divergence, rel=0.05, abs=1e-3)


def meets(run: Run, made: np.ndarray, expected: Tensor) -> None:
    """Float32 sums in another order; packed products round a layer's input to eight binary digits, and that grows."""
    share = 1e-4 if run.trace.decoder.plan.linear == "float32" else 2e-2
    assert np.abs(made - expected.numpy()).max() <= share * float(expected.abs().max())


def test_the_first_position_can_be_without_a_part(decoder_float32: Decoder, watched_float32: Run) -> None:
    trace = replace(watched_float32.trace, num_prompt_tokens=1)
    run = replace(watched_float32, trace=trace)
    with without(decoder_float32, {2: [1]}, [], []):
        expected = new_sequence(decoder_float32, num_blocks=1).feed(PROMPT[:1])
    for everywhere in (False, True):
        view = run.view("ablation", position=0, heads="2:1", everywhere=everywhere)
        meets(run, view.tensors["logits"], expected[view.info["token_ids"]])


@pytest.mark.parametrize(
    ("asked", "field", "limit"),
    [
        ({}, "heads", "name at least one"),
        ({"heads": "14"}, "heads", "layer:head"),
        ({"heads": "14:9"}, "heads", "0 to 8"),
        ({"heads": "30:0"}, "heads", "0 to 29"),
        ({"heads": "1:x"}, "heads", "layer:head"),
        ({"layers": "1,,2"}, "layers", "whole numbers"),
        ({"layers": "30"}, "layers", "0 to 29"),
        ({"feed_forwards": "-1"}, "feed_forwards", "whole numbers"),
        ({"layers": ",".join(["1"] * 65)}, "layers", "at most 64"),
    ],
)
def test_what_cannot_be_off_is_named(watched_float32: Run, asked: dict[str, Any], field: str, limit: str) -> None:
    with pytest.raises(QueryError, match=limit) as raised:
        watched_float32.view("ablation", **asked)
    assert raised.value.field == field


# ---------------------------------------------------------------- attribution


@pytest.mark.parametrize("step", [0, STEPS])
def test_the_parts_of_a_logit_add_up_to_it(any_run: Run, step: int) -> None:
    view = any_run.view("attribution", step=step)
    config, logits = any_run.trace.decoder.config, any_run.logits[step]
    assert view.tensors["heads"].shape == (config.n_layers, config.n_heads)
    assert view.tensors["feed_forwards"].shape == (config.n_layers,)
    total = sum(float(tensor.astype(np.float64).sum()) for tensor in view.tensors.values())
    assert view.info["sum"] == pytest.approx(total, abs=1e-4)
    assert view.info["logit"] == float(logits[view.info["token"]])
    assert view.info["rounding"] == pytest.approx(view.info["logit"] - total, abs=1e-4)
    tolerance = view.info["exactness"]["tolerance"]
    assert abs(view.info["rounding"]) <= tolerance * view.info["sum_of_sizes"]


def test_each_part_is_what_its_matrix_wrote(watched_float32: Run, checkpoint: Checkpoint) -> None:
    run, position = watched_float32, LAST + 2
    view = run.view("attribution", step=2, token=1234)
    final = run.trace.stream(position)[-1].double().numpy()
    table = run.trace.decoder.embedding.double().numpy()
    direction = table[1234] * checkpoint.tensor("final_norm") / np.sqrt(np.mean(final**2) + 1e-5)
    embedding = table[run.trace.token_ids[position]] @ direction
    assert view.tensors["embedding"][0] == pytest.approx(embedding, abs=1e-4)
    for layer, head in ((0, 0), (14, 4), (29, 8)):
        columns = slice(head * 64, head * 64 + 64)
        mixed = run.products[layer, "attention.output"].given[position, columns].numpy()
        written = checkpoint.tensor(f"layers.{layer}.output")[:, columns] @ mixed
        assert view.tensors["heads"][layer, head] == pytest.approx(written @ direction, abs=1e-4)
        update = run.products[layer, "feed_forward.down"].gave[position].numpy()
        assert view.tensors["feed_forwards"][layer] == pytest.approx(update @ direction, abs=1e-3)


def test_the_difference_of_two_logits_is_the_difference_of_their_parts(watched_float32: Run) -> None:
    one, other = (watched_float32.view("attribution", token=token) for token in (260, 1234))
    between = watched_float32.view("attribution", token=260, against=1234)
    assert between.info["logit"] == pytest.approx(one.info["logit"] - other.info["logit"], abs=1e-5)
    for name, tensor in between.tensors.items():
        np.testing.assert_allclose(tensor, one.tensors[name] - other.tensors[name], atol=1e-3)
    assert between.info["against_ids"] == [1234]
    with pytest.raises(QueryError, match="0 to 49151") as raised:
        watched_float32.view("attribution", against=49152)
    assert raised.value.field == "against"


# ---------------------------------------------------------------- two responses


@pytest.fixture
def pair(watched_float32: Run) -> Run:
    """The same run with a second response beside it: another text that holds the first one's tokens."""
    trace = watched_float32.trace
    sequence = new_sequence(trace.decoder, num_blocks=1)
    sequence.feed([*PROMPT[20:], PROMPT[30]])
    other = replace(
        trace,
        cache=sequence.cache,
        residuals=sequence.residuals,
        blocks=sequence.blocks,
        token_ids=sequence.token_ids,
        num_prompt_tokens=len(sequence.token_ids),
    )
    return replace(watched_float32, trace=replace(trace, other=other))


def test_one_token_begins_as_one_row_and_drifts_apart(pair: Run) -> None:
    view = pair.view("contextual", position=30)
    other = pair.trace.other
    assert other is not None
    assert view.info["other_position"] == len(other.token_ids) - 1  # the last of two
    mine, theirs = pair.trace.stream(30).double(), other.stream(view.info["other_position"]).double()
    cosines = (mine * theirs).sum(-1) / mine.norm(dim=-1) / theirs.norm(dim=-1)
    np.testing.assert_allclose(view.tensors["cosines"], cosines, atol=1e-6)
    np.testing.assert_allclose(view.tensors["distances"], (mine - theirs).norm(dim=-1), rtol=1e-5)
    assert (view.tensors["cosines"][0], view.tensors["distances"][0]) == (1, 0)
    assert view.tensors["cosines"][1:].max() < 1
    assert view.tensors["cosines"].shape == (31,)
    assert pair.view("contextual", position=30, other_position=10).info["other_position"] == 10


@pytest.mark.parametrize(
    ("asked", "field", "message"),
    [
        ({"position": 30, "other_position": 99}, "other_position", "0 to 15"),
        ({"position": 30, "other_position": 1}, "other_position", "must hold token"),
        ({"position": 1}, "position", "which the other response does not"),
    ],
)
def test_only_one_and_the_same_token_is_compared(pair: Run, asked: dict[str, int], field: str, message: str) -> None:
    with pytest.raises(QueryError, match=message) as raised:
        pair.view("contextual", **asked)
    assert raised.value.field == field


def test_a_comparison_needs_a_second_response(watched_float32: Run) -> None:
    with pytest.raises(QueryError, match="to compare with") as raised:
        watched_float32.view("contextual")
    assert raised.value.field == "other"


@pytest.mark.parametrize("slug", ["lens", "heads_grid", "attribution", "ablation", "kv_cache"])
def test_long_views_pause_between_their_pieces(watched_float32: Run, slug: str) -> None:
    layers = watched_float32.trace.decoder.config.n_layers
    pauses: list[int] = []

    def pause() -> None:
        pauses.append(1)

    run = replace(watched_float32, trace=replace(watched_float32.trace, pause=pause))
    run.view(slug, **({"layers": "0"} if slug == "ablation" else {}))
    assert len(pauses) >= (layers // 4 if slug == "lens" else layers)
