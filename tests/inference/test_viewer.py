"""Questions about a response's inside: recorded, recomputed, still running, and wrong ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import BytesIO
from queue import SimpleQueue
from typing import Any, cast

import numpy as np
import pytest
import safetensors.numpy

from inference.child import Loop, Machine
from inference.engine import Engine
from inference.messages import FromEngine, Judge, Judged, Shutdown, Subject, ToEngine, ViewReply, ViewRequest
from inference.pipe import encode
from inference.viewer import Viewer
from inference.views import Trace
from tests.inference.tiny import alone, collect, request, run, tiny_engine

PROMPT = "the cat and the dog and the " * 6
ASKED = request("a", PROMPT, max_tokens=6)


def subject(engine: Engine, token_ids: list[int] | None = None, name: str = "a", **fields: Any) -> Subject:
    ids = [*ASKED.token_ids, *alone(ASKED).token_ids] if token_ids is None else token_ids
    known: dict[str, Any] = {
        "fingerprint": engine.decoder.fingerprint, "num_prompt_tokens": len(ASKED.token_ids)
    }  # fmt: skip
    return Subject(name, token_ids=ids, **known | fields)


def ask(engine: Engine, slug: str, *, token_ids: list[int] | None = None, **query: Any) -> ViewRequest:
    return ViewRequest("q", slug, query, subject(engine, token_ids))


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
        ("softmax", {"key": 1}, "key"),
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


def test_another_engine_s_numbers_are_refused() -> None:
    engine = tiny_engine()
    run(engine, ASKED)
    asked = ViewRequest("q", "softmax", {}, subject(engine, fingerprint="another/cpu"))
    reply = Viewer(engine).answer(asked, nothing)
    assert (reply.body, reply.field) == (None, "response_id")
    assert "another/cpu" in str(reply.error)
    compared = ViewRequest("q", "contextual", {}, subject(engine), subject(engine, name="b", fingerprint="another/cpu"))
    assert Viewer(engine).answer(compared, nothing).field == "response_id"


def test_what_is_rebuilt_is_compared_with_what_was_recorded() -> None:
    engine = tiny_engine(num_traced=0)
    steps = run(engine, ASKED)["a"].steps
    recorded = [step.raw_logprob for step in steps]
    viewer = Viewer(engine)
    for shift in (0.0, 0.5):
        logprobs = [logprob + shift for logprob in recorded if logprob is not None]
        asked = ViewRequest("q", "qkv", {}, subject(engine, logprobs=logprobs))
        info, _ = read(Viewer(engine).answer(asked, nothing))
        assert (info["provenance"], info["agreement"]["num_compared"]) == ("rebuilt", len(steps))
        assert info["agreement"]["largest_difference"] == pytest.approx(shift, abs=1e-5)
    info, _ = read(viewer.answer(ask(engine, "qkv"), nothing))
    assert info["agreement"] == {"num_compared": 0, "largest_difference": None}


def test_what_is_recorded_is_compared_with_nothing() -> None:
    engine = tiny_engine()
    run(engine, ASKED)
    info, _ = read(Viewer(engine).answer(ask(engine, "qkv"), nothing))
    assert info["agreement"] is None


def test_two_responses_are_compared_whether_held_or_rebuilt() -> None:
    engine = tiny_engine()
    longer = request("b", [1, 2, 3, *ASKED.token_ids], max_tokens=3)
    outcomes = run(engine, ASKED, longer)
    ids = [*longer.token_ids, *outcomes["b"].token_ids]
    other = subject(engine, ids, "b", num_prompt_tokens=len(longer.token_ids))
    asked = ViewRequest("q", "contextual", {"position": 5, "other_position": 8}, subject(engine), other)
    held = Viewer(engine).answer(asked, nothing)
    info, tensors = read(held)
    assert (info["provenance"], info["other_provenance"]) == ("derived", "derived")
    assert tensors["cosines"][0] == 1
    assert tensors["cosines"].shape == (3,)
    blind = tiny_engine(num_traced=0)
    info, rebuilt = read(Viewer(blind).answer(asked, nothing))
    assert (info["provenance"], info["other_provenance"]) == ("rebuilt", "rebuilt")
    np.testing.assert_allclose(rebuilt["cosines"], tensors["cosines"], atol=1e-6)
    assert read(Viewer(engine).answer(asked, nothing))[0]["other_num_positions"] == len(ids) - 1


def test_answers_that_run_during_a_view_do_not_wait_for_its_blocks() -> None:
    """The response is finished and all of its blocks are wanted: who runs gets them, and the view is made again."""
    engine = tiny_engine(num_blocks=6)
    run(engine, ASKED)
    asked = ask(engine, "ablation", heads="0:1", step=2)
    _, expected = read(Viewer(engine).answer(asked, nothing))
    greedy = [request(f"n{number}", [7 + number] * 150, max_tokens=20, temperature=0) for number in range(2)]
    later: list[FromEngine] = []

    def pause() -> None:
        for one in greedy:
            engine.submit(one)
        greedy.clear()
        while engine.has_work:
            later.extend(engine.step())

    info, tensors = read(Viewer(engine).answer(asked, pause))
    assert info["provenance"] == "rebuilt"
    for name, tensor in tensors.items():
        np.testing.assert_allclose(tensor, expected[name], atol=1e-5)
    ends = collect(later)
    assert {name: outcome.end.finish for name, outcome in ends.items()} == {"n0": "length", "n1": "length"}
    assert engine.scheduler.num_available == 6


@pytest.mark.parametrize(
    ("position", "rows"),
    [
        (0, (0, 128)), (127, (0, 128)), (128, (128, 200)), (199, (128, 200)), (200, (200, 201)), (255, (255, 256)),
        (256, (256, 300)), (299, (256, 300)), (300, (300, 301)), (310, (310, 311)),
    ],
)  # fmt: skip
def test_a_view_knows_which_rows_went_through_together(position: int, rows: tuple[int, int]) -> None:
    """A prompt of 300 tokens, of which 200 to 255 are an earlier answer's, decoded one by one."""
    engine = tiny_engine()
    trace = Trace(engine.decoder, engine.cache, engine.residuals, [], [1] * 320, 300, decoded_prefix=[(200, 256)])
    assert trace.pass_of(position) == rows


class Slow:
    """Stands in for a machine: its view goes on until a judgement has been given between two of its pieces."""

    has_work = False

    def __init__(self, inbox: SimpleQueue[ToEngine]) -> None:
        self._inbox = inbox
        self._judged = False

    def view(self, request: ViewRequest, pause: Callable[[], None]) -> ViewReply:
        if self.is_quick(request):
            return ViewReply(request.request_id, body=b"quick")
        for name in ("another long one", "quick"):
            self._inbox.put(ViewRequest(name, "softmax", {}, request.subject))
        self._inbox.put(Judge("j", ["a"]))
        self._inbox.put(Shutdown())
        for _ in range(3):
            pause()
        return ViewReply(request.request_id, body=b"after" if self._judged else b"before")

    def is_quick(self, request: ViewRequest) -> bool:
        return request.request_id == "quick"

    def judge(self, request: Judge) -> Judged:
        self._judged = True
        return Judged(request.request_id, [{}])


def test_a_judgement_does_not_wait_for_a_view_nor_a_quick_view_for_a_long_one() -> None:
    inbox: SimpleQueue[ToEngine] = SimpleQueue()
    inbox.put(ViewRequest("v", "softmax", {}, Subject("a", "f", [1], 1)))
    pipe = BytesIO()
    Loop(cast(Machine, Slow(inbox)), inbox, pipe).run()
    replies: list[FromEngine] = [Judged("j", [{}]), ViewReply("quick", body=b"quick"), ViewReply("v", body=b"after")]
    assert pipe.getvalue() == b"".join(encode(reply) for reply in replies)


def test_what_needs_a_pass_over_all_positions_is_not_quick() -> None:
    recorded, unrecorded = tiny_engine(), tiny_engine(num_traced=0)
    viewers = Viewer(recorded), Viewer(unrecorded)
    for engine in (recorded, unrecorded):
        run(engine, ASKED)
    asked = ask(recorded, "softmax")
    assert [viewer.is_quick(asked) for viewer in viewers] == [True, False]
    viewers[1].answer(asked, nothing)
    assert viewers[1].is_quick(asked)
    compared = ViewRequest("q", "contextual", {}, subject(recorded), subject(recorded, [1, 2, 3], "b"))
    assert not viewers[0].is_quick(compared)
    assert not viewers[0].is_quick(ask(recorded, "kv_cache"))
    assert viewers[0].is_quick(ask(recorded, "ablation", layers="1"))
    assert not viewers[0].is_quick(ask(recorded, "ablation", layers="1", everywhere=True))


def test_what_was_looked_at_least_recently_makes_room_and_is_recomputed_when_asked_for_again() -> None:
    """Nine blocks in all, six with room for residual streams, three for each response."""
    engine = tiny_engine(num_blocks=9, num_traced=6)
    viewer = Viewer(engine)
    asked: dict[str, ViewRequest] = {}
    for name in ("a", "b"):
        prompt = list(f"{name} {PROMPT}".encode())
        outcome = run(engine, request(name, prompt, max_tokens=6))[name]
        told = subject(engine, [*prompt, *outcome.token_ids], name, num_prompt_tokens=len(prompt))
        asked[name] = ViewRequest("q", "softmax", {"layer": 1}, told)

    def provenance(name: str) -> str:
        return str(read(viewer.answer(asked[name], nothing))[0]["provenance"])

    assert (provenance("b"), provenance("a")) == ("derived", "derived")
    assert run(engine, request("c", f"c {PROMPT}", max_tokens=6))["c"].started[0].recorded
    assert (provenance("a"), provenance("b")) == ("derived", "rebuilt")


def test_recomputed_responses_are_kept_within_their_budget() -> None:
    engine = tiny_engine(num_blocks=32)
    viewer = Viewer(engine)
    most = 32 * engine.residuals.bytes_per_block // 4
    size = 100 * (engine.cache.bytes_per_token + engine.residuals.bytes_per_token)
    num_kept = most // size
    assert num_kept >= 2
    told = [subject(engine, [number] * 100, f"r{number}", num_prompt_tokens=90) for number in range(num_kept + 1)]
    asked = [ViewRequest("q", "softmax", {}, one) for one in told]
    for one in (*asked[:-1], asked[0], asked[-1]):
        assert viewer.answer(one, nothing).body is not None
    assert [viewer.is_quick(one) for one in asked] == [True, False, *[True] * (num_kept - 1)]
    long = ViewRequest("q", "softmax", {}, subject(engine, [1] * 500, "long", num_prompt_tokens=490))
    assert 100 * num_kept < 500
    assert viewer.answer(long, nothing).body is not None
    assert [viewer.is_quick(one) for one in (*asked, long)] == [False] * (num_kept + 1) + [True]
