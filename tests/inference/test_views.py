"""Views against what the running model computed, and against arithmetic done again in numpy."""

import json
import math
import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from inference.cache import KVCache, ResidualPool
from inference.checkpoint import Checkpoint
from inference.model.decoder import Decoder
from inference.query import ASKED, UNRECORDED, Query, QueryError, parse_query
from inference.views import VIEWS, Trace, rebuild
from tests.inference.sequences import new_sequence
from tests.inference.watched import CASE, LAST, PROMPT, STEPS, Product, Run


@pytest.fixture
def run(watched_float32: Run) -> Run:
    return watched_float32


def test_every_head_s_map_is_what_the_running_attention_weighed(any_run: Run) -> None:
    config = any_run.trace.decoder.config
    for layer in range(config.n_layers):
        for head in range(config.n_heads):
            view = any_run.view("attention", layer=layer, head=head)
            tolerance = view.info["exactness"]["tolerance"]
            assert tolerance == (1e-5 if any_run.trace.decoder.plan.linear == "float32" else 2e-3)
            for position, row in enumerate(view.tensors["weights"]):
                expected = any_run.weights[layer, position][head].numpy()
                assert np.abs(row[: position + 1] - expected[: position + 1]).max() <= tolerance
                assert not row[position + 1 :].any()


def test_the_row_of_a_step_is_what_that_step_weighed(any_run: Run) -> None:
    for step in (0, STEPS):
        view = any_run.view("softmax", layer=14, head=4, step=step)
        expected = any_run.weights[14, LAST + step][4].numpy()
        assert np.abs(view.tensors["weights"] - expected).max() <= view.info["exactness"]["tolerance"]
        assert (view.info["step"], view.info["position"]) == (step, LAST + step)
        assert view.info["sum"] == pytest.approx(1, abs=1e-5)
        assert view.info["sink_mass"] == pytest.approx(float(expected[0]), abs=view.info["exactness"]["tolerance"])
        entropy = -sum(w * math.log(w) for w in expected.tolist() if w > 0)
        assert view.info["entropy"] == pytest.approx(entropy, abs=1e-2)


def test_logits_are_those_the_step_was_drawn_from(any_run: Run) -> None:
    for step in (0, 3):
        view = any_run.view("logits", step=step, top=20)
        row = any_run.logits[step]
        assert torch.equal(torch.from_numpy(view.tensors["top_logits"]), row.topk(20).values)
        assert torch.equal(row[view.info["bottom_ids"]], torch.from_numpy(view.tensors["bottom_logits"]))
        assert view.info["minimum"] == view.tensors["bottom_logits"][0] == float(row.min())
        assert view.info["token"] == any_run.trace.token_ids[LAST + step + 1]
        assert view.info["token_rank"] == 0
        assert view.info["mean"] == pytest.approx(float(row.mean()), abs=1e-3)
        assert view.info["std"] == pytest.approx(float(np.std(row.numpy())), abs=1e-3)


def test_any_token_s_logit_can_be_asked_for(run: Run) -> None:
    info = run.view("logits", token=1234).info
    row = run.logits[0].numpy()
    assert info["token_logit"] == float(row[1234])
    assert info["token_rank"] == int((row > row[1234]).sum())


def test_probabilities_are_of_the_whole_vocabulary(run: Run) -> None:
    view = run.view("probabilities")
    assert view.info["top_ids"] == CASE["top10"]["ids"]
    assert view.tensors["top_probabilities"].tolist() == pytest.approx(CASE["top10"]["probabilities"], abs=1e-4)
    assert view.info["entropy"] == pytest.approx(CASE["entropy_nats"], abs=1e-3)
    assert view.info["others_mass"] == pytest.approx(1 - sum(CASE["top10"]["probabilities"]), abs=1e-4)
    shown = math.exp(float(view.tensors["top_logits"][3]) - view.info["largest_logit"])
    assert shown / view.info["exponential_sum"] == pytest.approx(float(view.tensors["top_probabilities"][3]), rel=1e-4)


def test_lens_ends_in_the_real_distribution(run: Run) -> None:
    view, real = run.view("lens", step=2), run.view("probabilities", step=2)
    assert view.tensors["top_probabilities"].shape == (31, 10)
    assert view.info["top_ids"][-1] == real.info["top_ids"]
    assert np.allclose(view.tensors["top_probabilities"][-1], real.tensors["top_probabilities"], rtol=1e-3)
    assert view.info["token"] == real.info["token"]
    assert view.tensors["probability"][-1] == pytest.approx(real.info["token_probability"], rel=1e-3)
    assert view.tensors["rank"][-1] == 0
    assert view.tensors["rank"][0] > 0


def test_embedding_row_and_its_neighbours(run: Run, checkpoint: Checkpoint) -> None:
    view = run.view("embeddings", position=26)
    table = checkpoint.tensor("embedding")
    token = PROMPT[26]
    assert np.array_equal(view.tensors["row"], table[token])
    cosines = table @ table[token] / (np.linalg.norm(table, axis=1) * np.linalg.norm(table[token])).clip(1e-30)
    cosines[token] = -2
    nearest = np.argsort(-cosines)[:10]
    assert view.info["nearest_ids"] == nearest.tolist()
    assert view.tensors["nearest_cosines"].tolist() == pytest.approx(cosines[nearest].tolist(), abs=1e-5)
    assert view.info["norm"] == pytest.approx(float(np.linalg.norm(table[token])), rel=1e-5)
    assert run.view("embeddings", token=token).info["nearest_ids"] == view.info["nearest_ids"]


def test_queries_keys_and_values_are_projections_of_the_normed_state(run: Run, checkpoint: Checkpoint) -> None:
    view = run.view("qkv", layer=0, head=7, position=3)
    state = checkpoint.tensor("embedding")[PROMPT[3]].astype(np.float64)
    normed = state / np.sqrt(np.mean(state**2) + 1e-5) * checkpoint.tensor("layers.0.attention_norm")
    assert np.allclose(view.tensors["normed"], normed, atol=1e-5)
    for name, row in (("q", 7), ("k", 2), ("v", 2)):
        expected = checkpoint.tensor(f"layers.0.{name}")[row * 64 : row * 64 + 64] @ normed
        assert np.allclose(view.tensors[name], expected, atol=1e-3)
    assert view.info["weight_shapes"] == {"q": [576, 576], "k": [192, 576], "v": [192, 576]}


def test_pairs_are_turned_by_their_angles(run: Run) -> None:
    view = run.view("positions", layer=5, head=1, position=30)
    angles = 30 * 100000.0 ** (-np.arange(32) / 32)
    assert np.allclose(view.tensors["angles"], angles, rtol=1e-6)
    for name in "qk":
        x, y = view.tensors[f"{name}_before"].reshape(32, 2).T
        turned = np.stack([x * np.cos(angles) - y * np.sin(angles), x * np.sin(angles) + y * np.cos(angles)], axis=-1)
        assert np.allclose(view.tensors[f"{name}_after"], turned.ravel(), atol=1e-4)


def test_scores_open_into_products_and_divide_by_eight(run: Run) -> None:
    at = {"layer": 14, "head": 4, "position": 33}
    view = run.view("scores", key=7, **at)
    q, k = view.tensors["q"], view.tensors["k"]
    assert np.allclose(q, run.view("positions", **at).tensors["q_after"])
    assert np.allclose(k, run.view("positions", layer=14, head=4, position=7).tensors["k_after"], atol=1e-4)
    assert np.allclose(view.tensors["products"], q * k)
    assert view.tensors["key_norms"].shape == view.tensors["raw"].shape
    assert view.tensors["key_norms"][7] == pytest.approx(float(np.linalg.norm(k)), rel=1e-5)
    opened = view.info["opened"]
    assert opened["sum"] == pytest.approx(float(view.tensors["raw"][7]), rel=1e-4)
    cosine = float(q @ k / (np.linalg.norm(q) * np.linalg.norm(k)))
    assert opened["cosine"] == pytest.approx(cosine, rel=1e-4)
    assert math.cos(math.radians(opened["angle_degrees"])) == pytest.approx(cosine, rel=1e-4)
    scaled = run.view("scale", **at).tensors
    assert np.allclose(scaled["raw"], view.tensors["raw"])
    assert np.allclose(scaled["scaled"], view.tensors["raw"] / 8)
    weights = np.exp(scaled["scaled"] - scaled["scaled"].max())
    softmax = run.view("softmax", **at)
    assert softmax.info["exponential_sum"] == pytest.approx(float(weights.sum()), rel=1e-4)
    assert np.allclose(softmax.tensors["weights"], weights / weights.sum(), atol=1e-6)


def test_mask_forbids_what_comes_later(run: Run) -> None:
    view = run.view("mask", position=4)
    assert view.tensors["allowed"].tolist() == [1] * 5 + [0] * (LAST + STEPS - 4)
    assert np.isfinite(view.tensors["before"]).all()
    assert np.isneginf(view.tensors["after"][5:]).all()
    assert np.array_equal(view.tensors["after"][:5], view.tensors["before"][:5])
    assert (view.info["num_allowed"], view.info["num_forbidden"]) == (5, LAST + STEPS - 4)


def test_weighted_values_add_up_and_become_the_heads(run: Run, checkpoint: Checkpoint) -> None:
    heads = run.view("heads", layer=9)
    for head in (0, 8):
        view = run.view("weighted_sum", layer=9, head=head)
        expected = view.tensors["weights"] @ view.tensors["values"]
        assert np.allclose(view.tensors["output"], expected, atol=1e-5)
        assert np.allclose(heads.tensors["joined"][head * 64 : head * 64 + 64], expected, atol=1e-5)
        assert heads.tensors["head_norms"][head] == pytest.approx(float(np.linalg.norm(expected)), rel=1e-4)
    projected = checkpoint.tensor("layers.9.output") @ heads.tensors["joined"]
    assert np.allclose(heads.tensors["projected"], projected, atol=1e-3)


def test_updates_lead_from_one_recorded_state_to_the_next(any_run: Run) -> None:
    for layer in (0, 13, 29):
        view = any_run.view("residual_norm", layer=layer, step=1)
        of = view.tensors
        assert np.allclose(of["old"] + of["attention_update"], of["middle"])
        assert np.allclose(of["middle"] + of["feed_forward_update"], of["new"])
        recorded = any_run.trace.stream(LAST + 1)[layer + 1].numpy()
        assert view.info["recorded_difference"] == pytest.approx(float(np.abs(of["new"] - recorded).max()))
        assert view.info["recorded_difference"] <= 1e-3 * np.abs(recorded).max()
        root = view.info["root_mean_square"]
        assert np.allclose(of["normed"], of["old"] / root * of["norm_weight"], rtol=1e-2, atol=1e-3)


def test_norms_agree_with_the_reference(run: Run) -> None:
    norms = run.view("residual_norm").tensors["norms"].tolist()
    assert norms == pytest.approx(CASE["hidden_state_norms_last_position"], rel=1e-3)


def test_strongest_neurons_are_the_strongest(run: Run, checkpoint: Checkpoint) -> None:
    view = run.view("feed_forward", layer=11, top=5)
    middle = run.view("residual_norm", layer=11).tensors["middle"].astype(np.float64)
    normed = middle / np.sqrt(np.mean(middle**2) + 1e-5) * checkpoint.tensor("layers.11.feed_forward_norm")
    gate, up = checkpoint.tensor("layers.11.gate") @ normed, checkpoint.tensor("layers.11.up") @ normed
    activation = gate / (1 + np.exp(-gate)) * up
    strongest = np.argsort(-np.abs(activation))[:5]
    assert view.tensors["neurons"].tolist() == strongest.tolist()
    for name, expected in (("gate", gate), ("up", up), ("activation", activation)):
        assert np.allclose(view.tensors[name], expected[strongest], rtol=1e-3, atol=1e-3)
    assert np.allclose(view.tensors["output"], checkpoint.tensor("layers.11.down") @ activation, atol=1e-2)
    assert view.info["num_positive_gates"] == int((gate > 0).sum())


def test_grid_of_heads_pools_their_maps(run: Run) -> None:
    view = run.view("heads_grid", layer=14)
    size = view.info["positions_per_cell"]
    assert size == 2
    for head in (0, 4):
        row = run.view("softmax", layer=14, head=head).info
        assert view.tensors["entropy"][14, head] == pytest.approx(row["entropy"], abs=1e-4)
        assert view.tensors["sink_mass"][14, head] == pytest.approx(row["sink_mass"], abs=1e-5)
        weights = run.view("attention", layer=14, head=head).tensors["weights"]
        padded = np.pad(weights, (0, -len(weights) % size))
        pooled = padded.reshape(len(padded) // size, size, -1, size).max(axis=(1, 3))
        assert np.allclose(view.tensors["thumbnails"][head], pooled, atol=1e-5)
    maps = [run.view("attention", layer=14, head=head).info["colour_maximum"] for head in range(9)]
    assert view.info["colour_maximum"] == pytest.approx(max(maps), abs=1e-5)


def test_kept_rows_are_what_their_inputs_give(any_run: Run) -> None:
    """A decoded position attended alone in the run too, so that all is the same to the last bit; one of the prompt
    among a cut's rows."""
    view = any_run.view("kv_cache", step=STEPS)
    assert (view.info["largest_difference"], view.info["largest_row_difference"]) == (0, 0)
    row = any_run.logits[STEPS]
    for name in ("cached_logits", "uncached_logits"):
        assert torch.equal(row[view.info["top_ids"]], torch.from_numpy(view.tensors[name]))
    assert view.info["kv_bytes_per_token"] == 30 * 2 * 3 * 64 * 4
    for position in (LAST, 5, 0):
        view = any_run.view("kv_cache", position=position)
        difference = view.info["largest_difference"]
        assert view.info["largest_row_difference"] == 0
        assert difference < (1e-3 if any_run.trace.decoder.plan.linear == "float32" else 1.0)
        best, second = view.tensors["cached_logits"][:2]
        assert view.info["same_top_token"] or best - second <= 2 * difference  # each may be off, towards the other


def test_rows_computed_again_are_the_captured_ones(any_run: Run) -> None:
    """What stands in the cache is compared and not read: the products of the run give the same rows."""
    trace, config = any_run.trace, any_run.trace.decoder.config
    blank = KVCache(config, trace.cache.num_blocks)
    info = any_run.view("kv_cache", step=STEPS).info
    of_nothing = VIEWS["kv_cache"](replace(trace, cache=blank), Query(step=STEPS)).info
    assert of_nothing["largest_difference"] == info["largest_difference"]  # of the logits: the cache was not read
    largest = 0.0
    for layer in range(config.n_layers):
        gave = any_run.products[layer, "attention.qkv"].gave[:, config.query_width :].view(trace.length, 2, 3, -1)
        turns = trace.decoder.turns[config.layers[layer].rotary]
        keys = torch.view_as_complex(gave[:, 0].reshape(trace.length, 3, -1, 2)) * turns[: trace.length]
        largest = max(largest, float(torch.view_as_real(keys).abs().max()), float(gave[:, 1].abs().max()))
    assert of_nothing["largest_row_difference"] == pytest.approx(largest, abs=1e-4)


def test_a_changed_row_and_a_changed_input_are_both_seen(run: Run) -> None:
    trace = run.trace
    slot = trace.cache.slots(trace.blocks, 7, 8)
    changed = KVCache(trace.decoder.config, trace.cache.num_blocks)
    changed.rows.copy_(trace.cache.rows)
    changed.rows[14, 2, slot] += 0.5
    info = VIEWS["kv_cache"](replace(trace, cache=changed), Query(step=STEPS)).info
    assert info["largest_row_difference"] == pytest.approx(0.5)
    assert info["largest_difference"] == 0
    residuals = ResidualPool(trace.decoder.config, trace.residuals.num_blocks)
    residuals.rows.copy_(trace.residuals.rows)
    residuals.rows[14:20, slot] *= -1
    info = VIEWS["kv_cache"](replace(trace, residuals=residuals), Query(step=STEPS)).info
    assert info["largest_row_difference"] > 1
    assert info["largest_difference"] > 0.1


def test_a_run_without_a_cache_agrees(any_run: Run) -> None:
    trace = any_run.trace
    view = any_run.view("kv_cache", step=STEPS, everywhere=True)
    sequence = new_sequence(trace.decoder, num_blocks=1)
    fresh = sequence.feed(trace.token_ids[: LAST + STEPS + 1])
    difference = float((fresh - any_run.logits[STEPS]).abs().max())
    assert view.info["largest_difference"] == pytest.approx(difference)
    assert difference < (1e-3 if trace.decoder.plan.linear == "float32" else 1.0)
    assert view.info["same_top_token"] == bool(fresh.argmax() == any_run.logits[STEPS].argmax())
    slots = trace.cache.slots(trace.blocks, 0, trace.length)
    rows = (sequence.cache.rows[:, :, : trace.length] - trace.cache.rows[:, :, slots]).abs().max()
    assert view.info["largest_row_difference"] == pytest.approx(float(rows))


def test_an_evicted_response_is_rebuilt_bit_by_bit(any_run: Run) -> None:
    trace, decoder = any_run.trace, any_run.trace.decoder
    pauses: list[int] = []
    empty = replace(
        trace,
        cache=KVCache(decoder.config, 1),
        residuals=ResidualPool(decoder.config, 1),
        blocks=[],
        pause=lambda: pauses.append(1),
    )
    logprobs = [float(row.log_softmax(-1).max()) for row in any_run.logits]
    logprobs[2] += 0.25
    rebuilt = rebuild(empty, [*logprobs[:4], None, *logprobs[5:]])
    assert len(pauses) >= 2 * decoder.config.n_layers  # after every layer, of the prompt and of the answer
    assert rebuilt.agreement is not None
    assert rebuilt.agreement.num_compared == STEPS
    assert rebuilt.agreement.largest_difference == pytest.approx(0.25, abs=1e-5)
    for layer in (0, 14, 30):
        assert torch.equal(rebuilt.states(layer, 0, trace.length), trace.states(layer, 0, trace.length))
    query = Query(layer=29, head=4, step=STEPS)
    view = VIEWS["softmax"](rebuilt, query)
    assert view.info["provenance"] == "rebuilt"
    assert view.info["agreement"]["num_compared"] == STEPS
    assert np.array_equal(view.tensors["weights"], VIEWS["softmax"](trace, query).tensors["weights"])


def test_a_tile_is_a_piece_of_the_map(run: Run) -> None:
    whole = run.view("attention", layer=3, head=2).tensors["weights"]
    view = run.view("attention", layer=3, head=2, query_from=5, query_to=12, key_from=0, key_to=9)
    assert np.allclose(view.tensors["weights"], whole[5:12, 0:9], atol=1e-6)
    assert view.info["colour_maximum"] == pytest.approx(float(whole[5:12, 1:9].max()), abs=1e-6)
    assert view.info["maximum"] == pytest.approx(float(whole[5:12, 0:9].max()), abs=1e-6)


def test_a_map_of_one_token_still_has_a_colour_range(decoder_float32: Decoder) -> None:
    sequence = new_sequence(decoder_float32, num_blocks=1)
    sequence.feed([5])
    trace = Trace(decoder_float32, sequence.cache, sequence.residuals, [0], [5], 1)
    for slug in ("attention", "heads_grid"):
        info = VIEWS[slug](trace, Query(layer=29)).info
        assert info["colour_maximum"] == pytest.approx(1)
        assert info["colour_leaves_out"] is None


@pytest.mark.parametrize("slug", VIEWS)
def test_no_view_of_a_long_response_passes_a_mebibyte(decoder_float32: Decoder, slug: str) -> None:
    blocks = range(17)
    cache, residuals = KVCache(decoder_float32.config, 17), ResidualPool(decoder_float32.config, 17)
    trace = Trace(decoder_float32, cache, residuals, blocks, [5] * 1088, 1080, num_computed=1088)
    query = Query(top=100, heads="29:0")
    assert len(VIEWS[slug](replace(trace, other=trace), query).to_bytes()) < 1 << 20


@pytest.mark.parametrize("slug", ["feed_forward", "residual_norm", "heads"])
def test_a_position_of_a_long_prompt_is_looked_into_in_pieces(decoder_float32: Decoder, slug: str) -> None:
    """Its whole cut attends with it: it pauses after the projection and every step of a key head's attention."""
    cache, residuals = KVCache(decoder_float32.config, 33), ResidualPool(decoder_float32.config, 33)
    pauses: list[int] = []
    for length, at_least in ((2050, 1 + 4 * decoder_float32.config.n_kv_heads), (500, 0)):
        pauses.clear()
        trace = Trace(
            decoder_float32, cache, residuals, range(33), [5] * length, length - 1, pause=lambda: pauses.append(1)
        )
        VIEWS[slug](trace, Query(layer=14, position=length - 10))
        assert len(pauses) == at_least


def test_bytes_can_be_read_without_a_library(run: Run) -> None:
    view = run.view("softmax")
    packed = view.to_bytes()
    (length,) = struct.unpack("<Q", packed[:8])
    header = json.loads(packed[8 : 8 + length])
    assert json.loads(header["__metadata__"]["view"]) == view.info
    begin, end = header["weights"]["data_offsets"]
    assert header["weights"]["dtype"] == "F32"
    assert np.array_equal(np.frombuffer(packed[8 + length :][begin:end], "<f4"), view.tensors["weights"])


@pytest.mark.parametrize(
    ("slug", "fields", "field", "limit"),
    [
        ("softmax", {"layer": 30}, "layer", "0 to 29"),
        ("softmax", {"layer": -1}, "layer", "0 to 29"),
        ("softmax", {"head": 9}, "head", "0 to 8"),
        ("softmax", {"position": LAST + STEPS + 1}, "position", f"0 to {LAST + STEPS}"),
        ("softmax", {"step": STEPS + 1}, "step", f"0 to {STEPS}"),
        ("scores", {"position": 4, "key": 5}, "key", "0 to 4"),
        ("logits", {"top": 0}, "top", "1 to 100"),
        ("logits", {"token": 49152}, "token", "0 to 49151"),
        ("embeddings", {"token": -1}, "token", "0 to 49151"),
        ("attention", {"query_to": 99}, "query_to", f"1 to {LAST + STEPS + 1}"),
        ("attention", {"key_from": 7, "key_to": 7}, "key_from", "0 to 6"),
    ],
)
def test_a_wrong_query_names_field_and_limit(
    run: Run, slug: str, fields: dict[str, int], field: str, limit: str
) -> None:
    with pytest.raises(QueryError, match=limit) as raised:
        run.view(slug, **fields)
    assert raised.value.field == field


def test_queries_come_from_the_strings_of_a_url() -> None:
    assert parse_query("softmax", {"layer": "14", "head": "4", "step": "7"}) == Query(layer=14, head=4, step=7)
    assert parse_query("ablation", {"layers": "3", "everywhere": "1"}) == Query(layers="3", everywhere=True)


@pytest.mark.parametrize(
    ("slug", "fields", "field", "message"),
    [
        ("nonsense", {}, "slug", "must be one of tokens, message_tokens, embeddings"),
        ("softmax", {"layer": "x"}, "layer", "a whole number"),
        ("softmax", {"head": 1.5}, "head", "a whole number"),
        ("softmax", {"colour": 1}, "colour", "takes layer, head, position, step"),
        ("softmax", {"key": 1}, "key", "not a parameter of the view softmax"),
        ("heads_grid", {"layer": 1, "head": 1}, "head", "not a parameter"),
        ("attention", {"step": 1}, "step", "not a parameter"),
        ("logits", {"position": 3, "step": 1}, "step", "together with position"),
        ("embeddings", {"position": 3, "token": 1}, "token", "together with position"),
        ("ablation", {"heads": 1.5}, "heads", "layer:head"),
        ("ablation", {"everywhere": "perhaps"}, "everywhere", "true or false"),
    ],
)
def test_what_a_view_does_not_take_is_refused_by_name(
    slug: str, fields: dict[str, Any], field: str, message: str
) -> None:
    with pytest.raises(QueryError, match=message) as raised:
        parse_query(slug, fields)
    assert raised.value.field == field


def test_every_view_that_can_be_asked_for_is_there() -> None:
    assert {*VIEWS, *UNRECORDED} == set(ASKED)
    assert all(set(asked.parameters) <= set(Query.__struct_fields__) for asked in ASKED.values())


@pytest.mark.parametrize("position", [20, LAST, LAST + 4])
@pytest.mark.parametrize("layer", [0, 14, 29])
def test_views_are_what_the_run_computed(any_run: Run, layer: int, position: int) -> None:
    """Everything the matrices of a layer were given and gave, within the tolerance that the view states."""
    config, tolerance = any_run.trace.decoder.config, any_run.view("qkv").info["exactness"]["tolerance"]
    at = {"layer": layer, "position": position}

    def product(name: str) -> Product:
        return any_run.products[layer, name]

    def meets(made: np.ndarray, expected: torch.Tensor) -> None:
        assert np.abs(made - expected.numpy()).max() <= tolerance * max(1.0, float(expected.abs().max()))

    head, shared = 7, 7 // config.heads_per_kv_head
    made = product("attention.qkv")
    qkv = any_run.view("qkv", head=head, **at).tensors
    rows = made.gave[position].view(-1, config.head_width)
    meets(qkv["normed"], made.given[position])
    meets(qkv["q"], rows[head])
    meets(qkv["k"], rows[config.n_heads + shared])
    meets(qkv["v"], rows[config.n_heads + config.n_kv_heads + shared])
    keys, values = any_run.trace.keys_and_values(layer, position + 1)
    turned = any_run.view("positions", head=head, **at).tensors
    meets(turned["k_after"], keys[shared, position])
    meets(qkv["v"], values[shared, position])
    meets(any_run.view("scores", head=head, **at).tensors["raw"], keys[shared] @ torch.from_numpy(turned["q_after"]))
    made = product("attention.output")
    heads = any_run.view("heads", **at).tensors
    meets(heads["joined"], made.given[position])
    meets(heads["projected"], made.gave[position])
    mixed = any_run.view("weighted_sum", head=head, **at).tensors["output"]
    meets(mixed, made.given[position].view(config.n_heads, -1)[head])
    up, down = product("feed_forward.gate_up"), product("feed_forward.down")
    neurons = any_run.view("feed_forward", top=20, **at).tensors
    gates, ups = up.gave[position].chunk(2)
    places = neurons["neurons"].tolist()
    meets(neurons["gate"], gates[places])
    meets(neurons["up"], ups[places])
    meets(neurons["activation"], down.given[position, places])
    meets(neurons["output"], down.gave[position])
    states = any_run.view("residual_norm", **at).tensors
    meets(states["attention_update"], made.gave[position])
    meets(states["feed_forward_update"], down.gave[position])
    meets(states["new"], any_run.trace.stream(position)[layer + 1])
