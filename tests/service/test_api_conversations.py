"""/api/v1/conversations: list, read, rename, delete, export."""

from __future__ import annotations

import base64
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client

from tests.service.cast import conversation_path, make_response, signed_in, with_key
from webtrace.accounts.models import User
from webtrace.conversations.models import Conversation, Response

JSON = "application/json"


@pytest.fixture
def response(owner: User) -> Response:
    return make_response(owner, "Because of the chicken.")


def test_list_is_the_owners_newest_first_and_paged(owner: User, stranger: User) -> None:
    made = [make_response(owner, input=f"question {number}").conversation_id for number in range(5)]
    make_response(stranger)
    client = signed_in(owner)
    first = client.get("/api/v1/conversations", {"limit": 2}).json()
    assert [row["title"] for row in first["conversations"]] == ["question 4", "question 3"]
    assert first["conversations"][0]["num_messages"] == 2
    seen = [row["id"] for row in first["conversations"]]
    page = first
    while page["next"]:
        page = client.get("/api/v1/conversations", {"limit": 2, "before": page["next"]}).json()
        seen += [row["id"] for row in page["conversations"]]
    assert seen == [str(identifier) for identifier in reversed(made)]


def test_list_searches_titles_and_messages(owner: User) -> None:
    make_response(owner, "about cats", input="first")
    make_response(owner, "about dogs", input="second")
    client = signed_in(owner)
    for search, titles in {"dogs": ["second"], "FIRST": ["first"], "birds": []}.items():
        found = client.get("/api/v1/conversations", {"search": search}).json()["conversations"]
        assert [row["title"] for row in found] == titles


def test_list_refuses_a_wrong_limit_or_cursor(owner: User) -> None:
    before_time = base64.urlsafe_b64encode(f"0001-01-01T00:00:00+23:59 {uuid4()}".encode()).decode()
    for name, value in (("limit", "0"), ("before", "nonsense"), ("before", before_time)):
        got = signed_in(owner).get("/api/v1/conversations", {name: value})
        assert (got.status_code, got.json()["error"]["field"]) == (400, name)


def test_a_visitor_has_none(db: None) -> None:
    assert Client().get("/api/v1/conversations").json() == {"conversations": [], "next": None}


@pytest.mark.parametrize("method", ["get", "patch", "delete"])
def test_strangers_find_nothing(response: Response, stranger: User, staff: User, guest: User, method: str) -> None:
    address = conversation_path(response.conversation_id)
    body = {"data": {"title": "mine"}, "content_type": JSON} if method == "patch" else {}
    for user in (stranger, staff, guest):
        assert getattr(signed_in(user), method)(address, **body).status_code == 404
        assert getattr(with_key(user), method)(address, **body).status_code == 404
    assert getattr(Client(), method)(address, **body).status_code == 401
    assert Conversation.objects.get(owner=response.owner).title == "Tell me one"
    assert signed_in(stranger).get(f"{address}/export").status_code == 404


def test_owner_reads_the_tree(response: Response, owner: User) -> None:
    got = signed_in(owner).get(conversation_path(response.conversation_id)).json()
    question, answer = got["messages"]
    assert (question["role"], question["parent_id"], question["html"]) == ("user", None, None)
    assert (answer["role"], answer["parent_id"]) == ("assistant", question["id"])
    assert answer["html"] == "<p>Because of the chicken.</p>\n"
    assert answer["response"]["id"] == str(response.pk)
    assert answer["response"]["finish_reason"] == "stop"


def test_rename(response: Response, owner: User) -> None:
    client, address = signed_in(owner), conversation_path(response.conversation_id)
    assert client.patch(address, {"title": " New name "}, content_type=JSON).json()["title"] == "New name"
    for title in ("", "  ", "x" * 201):
        got = client.patch(address, {"title": title}, content_type=JSON)
        assert (got.status_code, got.json()["error"]["field"]) == (400, "title")
    assert client.get(address).json()["title"] == "New name"


def test_instructions_are_as_long_as_a_requests_at_most(response: Response, owner: User, settings: Any) -> None:
    client, address = signed_in(owner), conversation_path(response.conversation_id)
    settings.MAX_INPUT_CHARACTERS = 10
    assert client.patch(address, {"instructions": "x" * 10}, content_type=JSON).json()["instructions"] == "x" * 10
    got = client.patch(address, {"instructions": "x" * 11}, content_type=JSON)
    assert (got.status_code, got.json()["error"]["code"]) == (400, "too_large")
    assert client.get(address).json()["instructions"] == "x" * 10


def test_delete_takes_everything(response: Response, owner: User) -> None:
    client, address = signed_in(owner), conversation_path(response.conversation_id)
    assert client.delete(address).status_code == 204
    assert client.get(address).status_code == 404
    assert not Response.objects.filter(pk=response.pk).exists()


def test_export_is_a_file(response: Response, owner: User) -> None:
    got = signed_in(owner).get(conversation_path(response.conversation_id, "/export"))
    assert "attachment" in got["Content-Disposition"]
    assert [message["content"] for message in got.json()["messages"]] == ["Tell me one", "Because of the chicken."]
