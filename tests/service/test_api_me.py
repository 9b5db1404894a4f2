"""/api/v1/me and /api/v1/schema."""

from __future__ import annotations

import jsonschema  # type: ignore[import-untyped]
import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from tests.service.cast import make_response, principal, signed_in, with_key
from webtrace.accounts.models import User
from webtrace.conversations import log
from webtrace.gateway import limits


def test_me_for_everybody(owner: User, guest: User) -> None:
    signed = signed_in(owner).get("/api/v1/me").json()
    assert (signed["signed_in"], signed["guest"], signed["username"]) == (True, False, "owner")
    assert signed["limit"]["remaining"] == signed["limit"]["limit"] == 600
    assert with_key(owner).get("/api/v1/me").json()["username"] == "owner"
    visitor = signed_in(guest).get("/api/v1/me").json()
    assert (visitor["signed_in"], visitor["guest"], visitor["username"]) == (False, True, None)
    assert (visitor["limit"]["limit"], visitor["max_tokens"]) == (20, 300)
    assert Client().get("/api/v1/me").json()["guest"] is True


def test_me_counts_down(owner: User) -> None:
    limits.consume(principal(owner))
    standing = signed_in(owner).get("/api/v1/me").json()["limit"]
    assert standing["remaining"] == 599
    assert 3590 < standing["resets_in_s"] <= 3600


def test_a_wrong_key_is_not_a_visitor(db: None) -> None:
    assert Client(headers={"Authorization": "Bearer wt_x"}).get("/api/v1/me").status_code == 401


def test_schema_describes_what_is_sent(owner: User) -> None:
    schema = Client().get("/api/v1/schema").json()
    assert schema["asyncapi"].startswith("3.")
    response = make_response(owner)
    for line in log.read(response.pk):
        message = schema["channels"]["socket"]["messages"][line.type]
        event = signed_in(owner).get(f"/api/v1/responses/{response.pk}/events").json()["events"][line.number - 1]
        jsonschema.validate(event, {**message["payload"], "components": schema["components"]})


def test_protocol_document_is_fresh(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    call_command("protocol", "--check")
    monkeypatch.setattr("webtrace.api.management.commands.protocol.document", lambda: "something else")
    with pytest.raises(CommandError, match="stale"):
        call_command("protocol", "--check")
