"""What a worker answers when it is asked for a view: released things only, with texts beside ids, and prompt tokens."""

from __future__ import annotations

import asyncio
import json
import struct
import zlib
from typing import Any, cast
from uuid import UUID, uuid4

import msgspec
import numpy as np
import pytest
import safetensors.numpy
from asgiref.sync import async_to_sync
from django.core.cache import cache

from inference import messages as m
from inference.query import QueryError, parse_query
from tests.service.cast import make_response
from tests.service.test_prompt import tokenizer
from webtrace.accounts.models import User
from webtrace.conversations.models import EventBatch, Message, Response
from webtrace.dispatch.views import ViewResult
from webtrace.events import Usage
from webtrace.running.engine import Engine, EngineFailed
from webtrace.running.recorder import Recorder
from webtrace.worker import views
from webtrace.worker.lesson import MOST_WEIGHTS, training
from webtrace.worker.prompt_tokens import prompt_tokens
from webtrace.worker.runner import Runner
from webtrace.worker.statements import STATEMENTS, statements
from webtrace.worker.token_texts import info_of, with_token_texts
from webtrace.worker.views import ViewRequest, answer


class Looker:
    """Stands in for the engine: every view is the same few bytes; the last question is kept."""

    query: dict[str, Any]
    subject: m.Subject
    other: m.Subject | None

    def require(self) -> m.Ready:
        return m.Ready("f1", {}, "cpu", "float32", 1, 1, 64, 128, None)

    async def view(self, _: str, query: dict[str, Any], subject: m.Subject, other: m.Subject | None) -> bytes:
        self.query, self.subject, self.other = query, subject, other
        text = json.dumps({"__metadata__": {"view": "{}"}}).encode()
        return struct.pack("<Q", len(text)) + text


class Running:
    """Stands in for the recorder: one response with a prompt of 10 tokens, 3 more released."""

    def __init__(self, num_released: int) -> None:
        self.token_ids = list(range(10 + num_released))
        self.usage = Usage(10, 7)
        self.decoded_prefix: list[tuple[int, int]] = []

    def recording(self, _: UUID) -> Running:
        return self


@pytest.mark.parametrize(
    ("slug", "query", "released", "field"),
    [
        ("softmax", {"layer": 1}, 0, None),
        ("logits", {}, 0, "step"),
        ("logits", {}, 3, None),
        ("logits", {"step": 2}, 3, None),
        ("logits", {"step": 3}, 3, "step"),
        ("attribution", {}, 0, "step"),
        ("ablation", {"heads": "1:1"}, 0, "step"),
        ("softmax", {"key": 1}, 3, "key"),
        ("heads_grid", {"step": 3}, 3, "step"),
        ("lens", {"position": 11}, 3, None),
        ("lens", {"position": 12}, 3, "position"),
        ("lens", {"position": 9}, 0, "position"),
        ("embeddings", {"position": 5}, 0, None),
        ("what_if", {}, 0, "step"),
        ("what_if", {"step": 3, "temperature": 0.5}, 3, "step"),
        ("softmax", {"step": 3.0}, 3, "step"),
        ("softmax", {"position": 12.0}, 3, "position"),
        ("softmax", {"position": "12"}, 3, "position"),
    ],
)
async def test_a_view_shows_nothing_of_what_is_not_released(
    slug: str, query: dict[str, Any], released: int, field: str | None
) -> None:
    request = ViewRequest(uuid4().hex, uuid4(), slug, query)
    result = await answer(request, cast(Engine, Looker()), cast(Recorder, Running(released)), tokenizer())
    assert (result.body is None, result.field) == (field is not None, field)
    assert not result.code or result.code == "invalid_value"


def test_a_what_if_changes_what_it_names_and_keeps_the_rest(owner: User) -> None:
    response = make_response(owner)
    own = m.Sampling(seed=5, temperature=0.7, logit_bias={260: 2.0}, presence_penalty=0.5, stop=["x"])
    response.sampling = msgspec.to_builtins(own, str_keys=True)
    response.save()
    request = ViewRequest(uuid4().hex, response.pk, "what_if", {"step": 1, "temperature": 1.5, "top_k": 3})
    looker = Looker()
    async_to_sync(answer)(request, cast(Engine, looker), cast(Recorder, Running(3)), tokenizer())
    assert looker.query == {
        "step": 1, "temperature": 1.5, "top_k": 3, "seed": 5, "logit_bias": {"260": 2.0}, "presence_penalty": 0.5,
        "repetition_penalty": 1.0, "frequency_penalty": 0.0, "top_p": 0.95, "min_p": 0.0,
    }  # fmt: skip


async def looked_at(response: Response, slug: str, query: dict[str, Any]) -> tuple[ViewResult, Looker]:
    """A view of a response that no longer runs."""
    request, looker = ViewRequest(uuid4().hex, response.pk, slug, query), Looker()
    return await answer(request, cast(Engine, looker), cast(Recorder, Resting()), tokenizer()), looker


class Resting:
    """Stands in for a recorder with nothing to record."""

    def recording(self, _: UUID) -> None:
        return None


def finished(owner: User, **fields: Any) -> Response:
    """A stored response with a prompt of four tokens and two more, and the log of its two steps."""
    response = make_response(owner)
    defaults = {"token_ids": [1, 2, 3, 4, 5, 6], "num_prompt_tokens": 4, "fingerprint": "f1", "status": "completed"}
    Response.objects.filter(pk=response.pk).update(epoch=1, **defaults | fields)
    steps = [{"type": "trace.step", "raw_logprob": value} for value in (-0.5, None)]
    texts = [json.dumps(step) for step in ({"type": "response.created"}, *steps)]
    payload = zlib.compress("\n".join(texts).encode())
    EventBatch.objects.create(response=response, epoch=1, first=1, last=len(texts), payload=payload)
    response.refresh_from_db()
    return response


def test_the_engine_is_told_what_was_recorded_of_a_finished_response(owner: User) -> None:
    response = finished(owner, decoded_prefix=[(1, 3)])
    result, looker = async_to_sync(looked_at)(response, "softmax", {"layer": 1})
    assert result.body is not None
    assert looker.subject == m.Subject(str(response.pk), "f1", [1, 2, 3, 4, 5, 6], 4, [(1, 3)], [-0.5, None])
    assert looker.other is None


def test_the_second_response_of_a_comparison_comes_along_and_keeps_its_secrets(owner: User) -> None:
    response, other = finished(owner), finished(owner, token_ids=[1, 2, 3, 4, 5])
    ask = async_to_sync(looked_at)
    result, looker = ask(response, "contextual", {"position": 1, "other": str(other.pk)})
    assert result.body is not None
    assert looker.other is not None
    assert (looker.other.response_id, looker.other.token_ids) == (str(other.pk), [1, 2, 3, 4, 5])
    for query, field in (
        ({"position": 1, "other": str(other.pk), "other_position": 4}, "other_position"),
        ({"position": 1, "other": "nobody"}, "other"),
        ({"position": 5, "other": str(other.pk)}, "position"),
    ):
        result, _ = ask(response, "contextual", query)
        assert (result.body, result.code, result.field) == (None, "invalid_value", field)
    assert ask(response, "contextual", {"position": 1, "other": str(uuid4())})[0].code == "not_found"


async def test_a_view_asked_for_again_while_it_is_made_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[dict[str, Any]] = []
    done = asyncio.Event()

    async def make(request: ViewRequest, *_: Any) -> ViewResult:
        made.append(request.query)
        await done.wait()
        return ViewResult(body=str(len(made)).encode())

    async def launch() -> Any:
        raise AssertionError("No engine is needed.")

    monkeypatch.setattr(views, "answer", make)
    runner, response_id = Runner(launch, tokenizer()), uuid4()
    keys = [uuid4().hex for _ in range(4)]
    for key, step in zip(keys[:3], (1, 1, 2), strict=True):
        runner.view(ViewRequest(key, response_id, "kv_cache", {"step": step}))
    await asyncio.sleep(0)
    assert made == [{"step": 1}, {"step": 2}]
    done.set()
    await asyncio.gather(*runner._tasks)
    runner.view(ViewRequest(keys[3], response_id, "kv_cache", {"step": 1}))
    await asyncio.gather(*runner._tasks)
    assert [ViewResult.unpack(await cache.aget(key)).body for key in keys] == [b"2", b"2", b"2", b"3"]


# ---------------------------------------------------------------- tokens of the prompt


def prompt_view(text: str, **asked: Any) -> dict[str, Any]:
    """The view `tokens` of a prompt: a control token, the text, a control token, and a token of the answer."""
    words = tokenizer()
    ids = [1, *words.encode(text), 2]
    body = prompt_tokens(m.Subject("a", "f1", [*ids, 3], len(ids)), parse_query("tokens", asked), words)
    (length,) = struct.unpack_from("<Q", body)
    info = json.loads(json.loads(body[8 : 8 + length])["__metadata__"]["view"])
    assert safetensors.numpy.load(body)["ids"].tolist() == [piece["id"] for piece in info["pieces"]]
    return dict(info)


def test_pieces_of_a_prompt_come_by_position_as_they_would_all_together() -> None:
    text = "Tell me a political joke\n\tabout 한국어 👩‍👩‍👧, thrice. " * 3
    whole = prompt_view(text)
    pieces = whole["pieces"]
    assert [piece["position"] for piece in pieces] == list(range(whole["num_prompt_tokens"]))
    assert pieces[0]["kind"] == pieces[-1]["kind"] == "control"
    for start, stop in ((0, 1), (1, 7), (5, 30), (20, whole["num_prompt_tokens"])):
        part = prompt_view(text, position_from=start, position_to=stop)
        assert part["pieces"] == pieces[start:stop]
        assert {tuple(merge) for merge in part["merges"]} <= {tuple(merge) for merge in whole["merges"]}


def test_merges_are_those_of_the_words_in_the_range() -> None:
    ids = tokenizer().encode("Tell me a political joke")
    assert len(ids) == 5
    part = prompt_view("Tell me a political joke", position_from=4, position_to=5)
    assert [piece["text"] for piece in part["pieces"]] == [" political"]
    assert part["merges"][-1][2] == " political"
    assert all(" political".find(merged) >= 0 for _, _, merged in part["merges"])
    assert part["num_merges"] == len(part["merges"]) > 1


def test_what_two_bytes_make_is_told_as_the_character_they_are() -> None:
    assert prompt_view("é")["merges"] == [["\\xc3", "\\xa9", "é"]]


@pytest.mark.parametrize(
    ("asked", "field", "limit"),
    [
        ({"position_from": 7}, "position_from", "0 to 6"),
        ({"position_from": -1}, "position_from", "0 to 6"),
        ({"position_from": 3, "position_to": 3}, "position_to", "4 to 7"),
        ({"position_to": 8}, "position_to", "1 to 7"),
    ],
)
def test_only_positions_of_the_prompt_have_pieces(asked: dict[str, int], field: str, limit: str) -> None:
    with pytest.raises(QueryError, match=limit) as caught:
        prompt_view("Tell me a political joke", **asked)
    assert caught.value.field == field


def test_pieces_of_a_very_long_prompt_come_in_parts() -> None:
    text = "Tell me a political joke. " * 300
    whole = prompt_view(text)
    assert len(whole["pieces"]) == 1024
    with pytest.raises(QueryError, match="at most 1024"):
        prompt_view(text, position_from=0, position_to=1025)
    assert prompt_view(text, position_from=1024)["pieces"][0]["position"] == 1024


# ---------------------------------------------------------------- tokens of the message


def test_the_message_is_split_by_itself_whatever_computed_the_response(owner: User) -> None:
    response, words = make_response(owner), tokenizer()
    message = response.user_message
    assert message is not None
    for text, num_pieces in (("Tell me a политический joke", None), ("Tell me a political joke. " * 300, 1024)):
        Message.objects.filter(pk=message.pk).update(content=text)
        result, _ = async_to_sync(looked_at)(response, "message_tokens", {"model": "another"})
        assert result.body is not None
        ids = words.encode(text)
        (length,) = struct.unpack_from("<Q", result.body)
        info = json.loads(json.loads(result.body[8 : 8 + length])["__metadata__"]["view"])
        assert (info["num_tokens"], info["num_characters"], info["left_out"]) == (len(ids), len(text), "")
        assert safetensors.numpy.load(result.body)["ids"].tolist() == ids[:num_pieces]
        assert [piece["id"] for piece in info["pieces"]] == ids[:num_pieces]
    Message.objects.filter(pk=message.pk).update(content="")
    assert async_to_sync(looked_at)(response, "message_tokens", {})[0].code == "invalid_value"


# ---------------------------------------------------------------- token texts


def test_texts_stand_beside_ids_and_the_numbers_stay_as_they_are() -> None:
    info = {"top_ids": [[1, 2], [9690]], "token": 253, "position": 1234, "same_top_token": True}
    header = {
        "x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}, "__metadata__": {"view": json.dumps(info)},
    }  # fmt: skip
    text = json.dumps(header).encode()
    numbers = struct.pack("<2f", 0.5, -1.0)
    body = with_token_texts(struct.pack("<Q", len(text)) + text + numbers, tokenizer())
    (length,) = struct.unpack_from("<Q", body)
    assert length % 8 == 0
    assert body[8 + length :] == numbers
    made = json.loads(body[8 : 8 + length])
    assert made["x"] == header["x"]
    found = json.loads(made["__metadata__"]["view"])
    assert found.pop("token_texts") == {
        "1": "<|im_start|>", "2": "<|im_end|>", "253": " a", "9690": "system",
    }  # fmt: skip
    assert found == info


async def test_a_model_too_large_is_not_copied_for_a_training_step() -> None:
    with pytest.raises(EngineFailed, match="500,000,001 weights with gradients would take 4 GB"):
        await training("large", MOST_WEIGHTS + 1)


class Weighing(Looker):
    """Stands in for an engine that finds every token as probable as its id is large."""

    def __init__(self) -> None:
        self.subjects: list[m.Subject] = []

    async def view(self, slug: str, query: dict[str, Any], subject: m.Subject, other: m.Subject | None) -> bytes:
        assert (slug, query["position"], query["token"]) == (
            "probabilities", subject.num_prompt_tokens - 1, subject.token_ids[-1],
        )  # fmt: skip
        self.subjects.append(subject)
        info = {"token_probability": query["token"] / 1e6, "token_rank": 3}
        return cast(bytes, safetensors.numpy.save({}, {"view": json.dumps(info)}))


async def test_the_ends_of_statements_are_weighed_by_the_engine_that_runs() -> None:
    engine, words = Weighing(), tokenizer()
    body = await statements(cast(Engine, engine), words)
    tensors = safetensors.numpy.load(body)
    rows = info_of(body)["statements"]
    assert [row["beginning"] for row in rows] == [one.beginning for one in STATEMENTS]
    for row, one, false, true in zip(rows, STATEMENTS, tensors["false"], tensors["true"], strict=True):
        assert row["false"]["token"] == words.encode(one.beginning + one.false)[len(words.encode(one.beginning))]
        assert false == np.float32(row["false"]["token"] / 1e6)
        assert (row["true"] is None and np.isnan(true)) or true == np.float32(row["true"]["token"] / 1e6)
        assert row["false"]["rank"] == 3
    assert {subject.fingerprint for subject in engine.subjects} == {"f1"}
    assert all(subject.num_prompt_tokens == len(subject.token_ids) - 1 for subject in engine.subjects)
