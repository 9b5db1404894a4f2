"""Questions about a response's inside: recorded, recomputed, still running, and wrong ones."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from inference.engine import Engine
from inference.messages import ViewReply, ViewRequest
from inference.viewer import Viewer
from tests.inference.tiny import alone, request, run, tiny_engine

PROMPT = "the cat and the dog and the " * 6
ASKED = request("a", PROMPT, max_tokens=6)


def ask(engine: Engine, slug: str, *, token_ids: list[int] | None = None, **query: Any) -> ViewRequest:
    known = alone(ASKED)
    ids = [*ASKED.token_ids, *known.token_ids] if token_ids is None else token_ids
    return ViewRequest("q", "a", slug, query, ids, len(ASKED.token_ids))


def nothing() -> None:
    pass


def read(reply: ViewReply) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    assert reply.body is not None, reply.error
    length = int.from_bytes(reply.body[:8], "little")
    info = json.loads(json.loads(reply.body[8 : 8 + length])["__metadata__"]["view"])
    return info, safetensors.numpy.load(reply.body)


def test_a_finished_response_is_read_from_its_recording() -> None:
    engine = tiny_engine()
    run(engine, ASKED)
    info, tensors = read(Viewer(engine).answer(ask(engine, "softmax", layer=1, head=1, step=3), nothing))
    assert info["provenance"] == "derived"
    assert tensors["weights"].shape == (len(PROMPT) + 3,)
    assert tensors["weights"].sum() == pytest.approx(1, abs=1e-5)


def test_what_was_not_kept_is_recomputed_once_and_agrees() -> None:
    recorded, unrecorded = tiny_engine(), tiny_engine(num_traced=0)
    run(recorded, ASKED)
    run(unrecorded, ASKED)
    question = ask(recorded, "softmax", layer=1, head=0, step=2)
    _, expected = read(Viewer(recorded).answer(question, nothing))
    pauses: list[int] = []
    viewer = Viewer(unrecorded)
    info, tensors = read(viewer.answer(question, lambda: pauses.append(1)))
    assert info["provenance"] == "rebuilt"
    np.testing.assert_allclose(tensors["weights"], expected["weights"], atol=1e-5)
    num_pauses = len(pauses)
    assert num_pauses >= 2  # between cuts, running responses go on
    viewer.answer(ask(recorded, "qkv", layer=0), lambda: pauses.append(1))
    assert len(pauses) == num_pauses


def test_a_running_response_can_be_looked_into_once_its_prompt_is_read() -> None:
    engine = tiny_engine()
    engine.submit(ASKED)
    viewer = Viewer(engine)
    engine.step()
    reading = viewer.answer(ask(engine, "softmax"), nothing)
    assert (reading.field, reading.error) == ("response_id", "the prompt is still being read")
    engine.step()
    engine.step()
    info, _ = read(viewer.answer(ask(engine, "softmax", step=1), nothing))
    assert info["provenance"] == "derived"
    assert viewer.answer(ask(engine, "softmax", step=4), nothing).field == "step"


@pytest.mark.parametrize("n_layers", [1, 7])
def test_the_last_layer_can_be_looked_into_however_many_there_are(n_layers: int) -> None:
    engine = tiny_engine(n_layers=n_layers)
    token_ids = [*ASKED.token_ids, *run(engine, ASKED)["a"].token_ids]
    viewer = Viewer(engine)
    _, tensors = read(viewer.answer(ask(engine, "softmax", token_ids=token_ids, layer=n_layers - 1), nothing))
    assert tensors["weights"].sum() == pytest.approx(1, abs=1e-5)
    _, tensors = read(viewer.answer(ask(engine, "heads_grid", token_ids=token_ids, layer=n_layers - 1), nothing))
    assert tensors["entropy"].shape[0] == n_layers
    beyond = viewer.answer(ask(engine, "softmax", token_ids=token_ids, layer=n_layers), nothing)
    assert beyond.field == "layer"
    assert str(n_layers - 1) in str(beyond.error)


def test_nothing_is_seen_past_the_tokens_that_may_be_seen() -> None:
    engine = tiny_engine()
    run(engine, ASKED)
    shown = [*ASKED.token_ids, *alone(ASKED).token_ids[:2]]
    viewer = Viewer(engine)
    _, tensors = read(viewer.answer(ask(engine, "attention", token_ids=shown, layer=1, head=1), nothing))
    assert tensors["weights"].shape == (len(shown) - 1, len(shown) - 1)
    info, _ = read(viewer.answer(ask(engine, "softmax", token_ids=shown, step=1), nothing))
    assert info["position"] == len(shown) - 2
    assert viewer.answer(ask(engine, "softmax", token_ids=shown, step=2), nothing).field == "step"
    assert viewer.answer(ask(engine, "softmax", token_ids=shown, position=len(shown) - 1), nothing).field == "position"


@pytest.mark.parametrize(
    ("slug", "query", "field"),
    [
        ("nonsense", {}, "slug"),
        ("softmax", {"layer": 2}, "layer"),
        ("softmax", {"head": -1}, "head"),
        ("softmax", {"layer": "x"}, "layer"),
        ("softmax", {"colour": 1}, "colour"),
        ("softmax", {"position": 10_000}, "position"),
    ],
)
def test_a_wrong_question_names_its_field(slug: str, query: dict[str, Any], field: str) -> None:
    engine = tiny_engine()
    run(engine, ASKED)
    reply = Viewer(engine).answer(ask(engine, slug, **query), nothing)
    assert (reply.body, reply.field) == (None, field)
    assert reply.error


def test_ids_that_cannot_be_read_again_are_an_answer_not_a_crash() -> None:
    engine = tiny_engine()
    viewer = Viewer(engine)
    assert viewer.answer(ask(engine, "softmax", token_ids=[]), nothing).field == "num_prompt_tokens"
    assert viewer.answer(ask(engine, "softmax", token_ids=[999] * 300), nothing).error
    assert viewer.answer(ask(engine, "softmax", token_ids=[1] * 600), nothing).error
