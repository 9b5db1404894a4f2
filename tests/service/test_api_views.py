"""Views over HTTP: the worker is asked once, its reply or its reason comes back. A worker of the test's own answers."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.cache import cache
from django.utils import timezone

from tests.service.cast import make_response, path, signed_in, with_key
from webtrace.accounts.models import User
from webtrace.conversations.models import Response
from webtrace.dispatch import bell
from webtrace.dispatch.models import Worker
from webtrace.dispatch.views import ViewResult

BODY = b"\x02\x00\x00\x00\x00\x00\x00\x00{}"


def make_worker(name: str, fingerprint: str = "f1", **fields: Any) -> Worker:
    return Worker.objects.create(
        pk=name, host="inside", process_id=1, region="local", model="m", fingerprint=fingerprint,
        seen_at=timezone.now(), **fields,
    )  # fmt: skip


@pytest.fixture
def response(owner: User) -> Response:
    response = make_response(owner)
    Response.objects.filter(pk=response.pk).update(fingerprint="f1", worker_id="w1")
    response.refresh_from_db()
    return response


class FakeWorkers:
    """Answers every ring with `result`, and remembers the rings."""

    def __init__(self) -> None:
        self.rings: list[dict[str, Any]] = []
        self.result: ViewResult | None = ViewResult(body=BODY)

    async def ring_view(self, **ring: Any) -> None:
        self.rings.append(ring)
        if self.result is not None:
            await cache.aset(ring["request_key"], self.result.pack(), 60)


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch, db: None) -> FakeWorkers:
    make_worker("w1")
    fake = FakeWorkers()
    monkeypatch.setattr(bell, "ring_view", fake.ring_view)
    return fake


def test_the_workers_bytes_arrive_and_are_asked_for_once(response: Response, owner: User, workers: FakeWorkers) -> None:
    for client in (signed_in(owner), with_key(owner)):
        got = client.get(path(response, "/views/softmax"), {"layer": "14", "head": "4", "step": "0"})
        assert (got.status_code, got.content) == (200, BODY)
        assert got["Content-Type"] == "application/octet-stream"
    (ring,) = workers.rings
    assert (ring["worker_id"], ring["response_id"], ring["slug"]) == ("w1", response.pk, "softmax")
    assert ring["query"] == {"layer": 14, "head": 4, "step": 0}


def test_another_slice_is_another_question(response: Response, owner: User, workers: FakeWorkers) -> None:
    client = signed_in(owner)
    for query in ({"layer": 1}, {"layer": 2}, {"layer": 1, "head": 0}):
        client.get(path(response, "/views/softmax"), query)
    client.get(path(response, "/views/scores"), {"layer": 1})
    assert len({ring["request_key"] for ring in workers.rings}) == 4


def test_while_it_still_grows_each_request_is_answered_anew(
    response: Response, owner: User, workers: FakeWorkers
) -> None:
    Response.objects.filter(pk=response.pk).update(status="in_progress")
    for _ in range(2):
        assert signed_in(owner).get(path(response, "/views/softmax")).status_code == 200
    assert len({ring["request_key"] for ring in workers.rings}) == 2


@pytest.mark.parametrize(
    ("result", "status", "field"),
    [
        (ViewResult(code="invalid_value", message="layer must be 0 to 29, not 30", field="layer"), 400, "layer"),
        (ViewResult(code="not_found", message="nothing was computed"), 404, None),
        (ViewResult(code="unavailable", message="the engine restarts"), 503, None),
    ],
)
def test_the_workers_reason_arrives(
    response: Response, owner: User, workers: FakeWorkers, result: ViewResult, status: int, field: str | None
) -> None:
    workers.result = result
    got = signed_in(owner).get(path(response, "/views/softmax"))
    error = got.json()["error"]
    assert (got.status_code, error["code"], error.get("field")) == (status, result.code, field)
    assert got.has_header("Retry-After") is (status == 503)
    workers.result = ViewResult(body=BODY)
    assert signed_in(owner).get(path(response, "/views/softmax")).status_code == 200  # a reason is not kept


def test_settings_of_a_what_if_arrive_as_numbers(response: Response, owner: User, workers: FakeWorkers) -> None:
    given = {"step": "2", "temperature": "0.5", "top_k": "0", "top_p": "1", "seed": str(2**63 - 1)}
    assert signed_in(owner).get(path(response, "/views/what_if"), given).status_code == 200
    (ring,) = workers.rings
    assert ring["query"] == {"step": 2, "temperature": 0.5, "top_k": 0, "top_p": 1, "seed": 2**63 - 1}


@pytest.mark.parametrize(
    ("slug", "query", "field"),
    [
        ("softmax", "layer=14&colour=red", "colour"),
        ("softmax", "layer=14&key=3", "key"),
        ("attention", "step=3", "step"),
        ("softmax", "layer=1&layer=2", "layer"),
        ("softmax", "layer=first", "layer"),
        ("softmax", "layer=", "layer"),
        ("logits", "step=1&position=3", "step"),
        ("nonsense", "", "slug"),
    ],
)
def test_what_a_view_does_not_take_is_refused_before_anybody_is_asked(
    response: Response, owner: User, workers: FakeWorkers, slug: str, query: str, field: str
) -> None:
    got = signed_in(owner).get(path(response, f"/views/{slug}?{query}"))
    error = got.json()["error"]
    assert (got.status_code, error["code"], error["field"]) == (400, "invalid_value", field)
    assert not workers.rings


def test_two_responses_can_be_compared_where_both_are_the_askers_and_their_numbers_are_alike(
    response: Response, owner: User, stranger: User, workers: FakeWorkers
) -> None:
    def other(of: User, fingerprint: str) -> Response:
        made = make_response(of)
        Response.objects.filter(pk=made.pk).update(fingerprint=fingerprint, status="completed")
        return made

    Response.objects.filter(pk=response.pk).update(status="completed")
    alike = other(owner, "f1")
    client, asked = signed_in(owner), path(response, "/views/contextual")
    assert client.get(asked, {"position": "3", "other": str(alike.pk)}).status_code == 200
    assert workers.rings[-1]["query"] == {"position": 3, "other": str(alike.pk)}
    for text, reason in (
        (str(other(owner, "f2").pk), "cannot be compared"),
        (str(other(stranger, "f1").pk), "one of your responses"),
        ("12", "one of your responses"),
        ("x", "one of your responses"),
    ):
        got = client.get(asked, {"position": "3", "other": text})
        error = got.json()["error"]
        assert (got.status_code, error["field"]) == (400, "other")
        assert reason in error["message"]
    assert len(workers.rings) == 1
    Response.objects.filter(pk=alike.pk).update(status="in_progress")
    client.get(asked, {"position": "3", "other": str(alike.pk)})
    assert workers.rings[0]["request_key"] != workers.rings[1]["request_key"]


def test_another_models_split_is_asked_of_a_worker_that_has_it(
    response: Response, owner: User, workers: FakeWorkers
) -> None:
    make_worker("busy", "f2", num_running=3)
    Worker.objects.filter(pk="busy").update(model="other")
    make_worker("idle", "f2")
    Worker.objects.filter(pk="idle").update(model="other")
    client, asked = signed_in(owner), path(response, "/views/message_tokens")
    for query, worker_id in (({"model": "other"}, "idle"), ({"model": "m"}, "w1"), ({}, "w1")):
        assert client.get(asked, query).status_code == 200
        assert (workers.rings[-1]["worker_id"], workers.rings[-1]["query"]) == (worker_id, query)
    got = client.get(asked, {"model": "gone"})
    error = got.json()["error"]
    assert (got.status_code, error["code"], error["field"]) == (400, "invalid_value", "model")
    assert "m, other" in error["message"]
    assert len(workers.rings) == 3


@pytest.mark.parametrize(("field", "value"), [("temperature", "nan"), ("min_p", "-inf"), ("seed", str(2**63))])
def test_no_number_that_cannot_be_one_is_passed_on(
    response: Response, owner: User, workers: FakeWorkers, field: str, value: str
) -> None:
    got = signed_in(owner).get(path(response, "/views/what_if"), {field: value})
    error = got.json()["error"]
    assert (got.status_code, error["code"], error["field"]) == (400, "invalid_value", field)
    assert "2^63" in error["message"]
    assert not workers.rings


def test_a_silent_worker_is_busy(response: Response, owner: User, workers: FakeWorkers, settings: Any) -> None:
    settings.VIEW_TIMEOUT_S = 0.05
    workers.result = None
    got = signed_in(owner).get(path(response, "/views/softmax"))
    assert (got.status_code, got.json()["error"]["code"]) == (503, "busy")
    assert got["Retry-After"] == "1"


def test_another_worker_with_the_same_numbers_takes_over(response: Response, owner: User, workers: FakeWorkers) -> None:
    Worker.objects.filter(pk="w1").update(stopped_at=timezone.now())
    make_worker("other-kernel", "f2")
    make_worker("w2", num_running=3)
    make_worker("w3", num_running=1)
    signed_in(owner).get(path(response, "/views/softmax"))
    assert workers.rings[0]["worker_id"] == "w3"


def test_a_refused_request_has_nothing_to_look_at(response: Response, owner: User, workers: FakeWorkers) -> None:
    Response.objects.filter(pk=response.pk).update(fingerprint="")
    assert signed_in(owner).get(path(response, "/views/softmax")).status_code == 404
    assert not workers.rings
