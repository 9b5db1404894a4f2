"""A share link and a trace file: what the owner, a link-holder, a stranger and staff can do with them."""

from __future__ import annotations

import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import msgspec
import pytest
from django.core.cache import cache
from django.test import Client

from inference.messages import Sampling
from tests.service.cast import make_response, make_user, path, signed_in, with_key
from tests.service.test_api_views import BODY, make_worker
from webtrace.accounts.models import User
from webtrace.api.trace_file import TraceFile
from webtrace.client_events import ResponseCreate
from webtrace.conversations import endings, log, services
from webtrace.conversations.endings import Ending
from webtrace.conversations.models import Response, Share
from webtrace.dispatch import bell
from webtrace.dispatch.views import ViewResult
from webtrace.events import FinishReason, ResponseCreated, TraceStage, Usage
from webtrace.reporting import service_summaries

SECRETS = ("owner-of-it", "browser/7.7", "/admin/", "17 of 20")
STAGES: dict[str, dict[str, Any]] = {
    "request": {"frame": "{}", "headers": [{"name": "user-agent", "value": "browser/7.7"}]},
    "gateway": {
        "principal": "user",
        "refused": None,
        "checks": [
            {"name": "authentication", "passed": True, "detail": "owner-of-it, by a session", "duration_ms": 0.1},
            {"name": "limit", "passed": True, "detail": "17 of 20 answers", "limit": 20, "remaining": 17},
        ],
    },
    "storage": {"rows": [], "redacted": [], "admin_path": "/admin/conversations/response/"},
    "prompt": {"segments": [], "num_tokens": 30},
}


@pytest.fixture
def owner(db: None) -> User:
    return make_user("owner-of-it")


@pytest.fixture
def response(owner: User) -> Response:
    return traced(owner)


def traced(owner: User, reason: FinishReason = "stop") -> Response:
    """A finished response whose log tells of its owner where a real one does."""
    response, _ = services.start_response(
        owner=owner,
        message=ResponseCreate(event_id="traced", input="Tell me one"),
        sampling=Sampling(seed=1),
        transport="websocket",
    )
    numbering = log.Numbering(response.pk, log.START)
    lines = [numbering.line(ResponseCreated, **service_summaries.created(response, Sampling(seed=1)))]
    for stage, data in STAGES.items():
        output = "admitted for owner-of-it" if stage == "gateway" else "done"
        line = numbering.line(
            TraceStage, stage=stage, started_ms=0, duration_ms=1, input="", operation="", output=output, data=data
        )
        lines.append(line)
    ending = Ending(reason, "A joke.", Usage(30, 5, 0))
    place = log.Place(0, numbering.place.number + 1)
    lines.append(endings.end_line(response_id=response.pk, place=place, ending=ending))
    assert endings.end_response(response_id=response.pk, epoch=0, lines=lines, ending=ending)
    Response.objects.filter(pk=response.pk).update(fingerprint="f1", worker_id="w1")
    response.refresh_from_db()
    return response


def shared(response: Response, owner: User) -> str:
    """The token of the response's link."""
    return str(signed_in(owner).put(path(response, "/share")).json()["path"]).removeprefix("/s/")


def link_holders(*users: User) -> list[Client]:
    return [Client(), *(signed_in(user) for user in users)]


def test_the_owner_makes_one_link_sees_it_and_takes_it_back(response: Response, owner: User) -> None:
    client, address = signed_in(owner), path(response, "/share")
    assert client.get(address).json() == {"path": None}
    made = client.put(address).json()
    assert made["path"].startswith("/s/")
    assert client.put(address).json() == client.get(address).json() == made
    assert client.delete(address).status_code == 204
    assert client.get(address).json() == {"path": None}
    assert Client().get(made["path"]).status_code == 404
    assert client.put(address).json() != made


def test_nobody_else_makes_sees_or_takes_back_a_link(
    response: Response, owner: User, stranger: User, staff: User, guest: User
) -> None:
    shared(response, owner)
    for method in ("get", "put", "delete"):
        for user in (stranger, staff, guest):
            assert getattr(signed_in(user), method)(path(response, "/share")).status_code == 404
            assert getattr(with_key(user), method)(path(response, "/share")).status_code == 404
        assert getattr(Client(), method)(path(response, "/share")).status_code == 401
    assert Share.objects.count() == 1


def test_a_link_holder_reads_the_trace_and_nothing_of_its_owner(
    response: Response, owner: User, stranger: User, staff: User
) -> None:
    token = shared(response, owner)
    for client in link_holders(stranger, staff, owner):
        page = client.get(f"/s/{token}")
        assert (page.status_code, page["X-Robots-Tag"], "no-store" in page["Cache-Control"]) == (200, "noindex", True)
        record = client.get(f"/api/v1/shared/{token}")
        assert record.json()["response"]["prompt"] == "Tell me one"
        assert record.json()["html"] == "<p>A joke.</p>\n"
        events = client.get(f"/api/v1/shared/{token}/events", {"epoch": 0, "after": 1})
        kinds = [event.get("stage", event["type"]) for event in events.json()["events"]]
        assert kinds == [*STAGES, "response.completed"]
        assert events.json()["finished"]
        export = client.get(f"/api/v1/shared/{token}/export")
        for got in (record, events, export):
            assert got.status_code == 200
            assert not [secret for secret in SECRETS if secret in got.content.decode()]
    # The link opens this trace and no other door.
    assert Client().get(path(response)).status_code == 401
    assert signed_in(stranger).get(path(response)).status_code == 404
    assert signed_in(stranger).get(path(response, "/export")).status_code == 404


def test_a_link_holder_gets_the_views(response: Response, owner: User, monkeypatch: pytest.MonkeyPatch) -> None:
    async def ring_view(**ring: Any) -> None:
        assert (ring["response_id"], ring["slug"], ring["query"]) == (response.pk, "softmax", {"layer": 3})
        await cache.aset(ring["request_key"], ViewResult(body=BODY).pack(), 60)

    make_worker("w1", model_info={"n_layers": 7})
    monkeypatch.setattr(bell, "ring_view", ring_view)
    token = shared(response, owner)
    got = Client().get(f"/api/v1/shared/{token}/views/softmax", {"layer": 3})
    assert (got.status_code, got.content) == (200, BODY)
    assert Client().get(f"/api/v1/shared/{token}").json()["model"]["n_layers"] == 7


def test_a_link_shows_no_other_response_beside_its_own(response: Response, owner: User) -> None:
    token = shared(response, owner)
    another = make_response(owner)
    Response.objects.filter(pk=another.pk).update(fingerprint="f1", worker_id="w1")
    query: dict[str, str | int] = {"position": 0, "other": str(another.pk), "other_position": 0}
    for client in link_holders(owner):
        got = client.get(f"/api/v1/shared/{token}/views/contextual", query)
        assert (got.status_code, got.json()["error"]["field"]) == (400, "other")


@pytest.mark.parametrize("rest", ["", "/events", "/views/softmax", "/export"])
def test_without_the_link_there_is_nothing(response: Response, owner: User, stranger: User, rest: str) -> None:
    token = shared(response, owner)
    for wrong in (token[:-1], token + "A", "x", token.swapcase()):
        for client in link_holders(stranger, owner):
            got = client.get(f"/api/v1/shared/{wrong}{rest}")
            assert got.status_code == 404
            assert "This link leads nowhere" in got.json()["error"]["message"]
    assert Client().post(f"/api/v1/shared/{token}{rest}").status_code == 405
    User.objects.filter(pk=owner.pk).update(is_active=False)
    assert Client().get(f"/api/v1/shared/{token}{rest}").status_code == 404


def test_what_safety_has_not_released_or_has_not_ended_is_not_shared(owner: User) -> None:
    declined = traced(owner, "refusal")
    growing, _ = services.start_response(
        owner=owner, message=ResponseCreate(event_id="e9", input="x"), sampling=Sampling(seed=1), transport="websocket"
    )
    client = signed_in(owner)
    for response in (declined, growing):
        got = client.put(path(response, "/share"))
        assert (got.status_code, got.json()["error"]["code"]) == (409, "not_shareable")
    assert client.get(path(growing, "/export")).status_code == 409
    assert not Share.objects.exists()


def test_deleting_the_conversation_ends_the_link(response: Response, owner: User) -> None:
    token = shared(response, owner)
    signed_in(owner).delete(f"/api/v1/conversations/{response.conversation_id}")
    assert Client().get(f"/s/{token}").status_code == 404


def test_the_file_is_what_its_schema_says(response: Response, owner: User) -> None:
    make_worker("w1", model_info={"n_layers": 7, "n_heads": 2})
    got = signed_in(owner).get(path(response, "/export"))
    assert "attachment" in got["Content-Disposition"]
    file = json.loads(got.content)
    assert (file["format"], file["version"]) == ("webtrace trace", 1)
    schema = Client().get(file["$schema"]).json()
    jsonschema.validate(file, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**file, "version": 2}, schema)
    assert msgspec.json.decode(got.content, type=TraceFile).response.prompt == "Tell me one"
    assert [event["sequence_number"] for event in file["events"]] == list(range(1, 7))
    assert file["model"] == {"n_layers": 7, "n_heads": 2, "kernel": "", "device": "", "fingerprint": "f1"}
    assert not [secret for secret in SECRETS if secret in got.content.decode()]


def test_others_get_no_file(stranger: User, staff: User, owner: User) -> None:
    response = make_response(owner)
    for user in (stranger, staff):
        assert signed_in(user).get(path(response, "/export")).status_code == 404
