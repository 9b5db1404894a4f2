"""GET /api/v1/responses: what its asker has to look into and to compare, and nothing of anybody else."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tests.service.cast import make_response, path, signed_in, with_key
from webtrace.accounts.models import User
from webtrace.conversations import services
from webtrace.conversations.models import Response

ADDRESS = "/api/v1/responses"


def listed(client: Client, **query: Any) -> list[str]:
    got = client.get(ADDRESS, query)
    assert got.status_code == 200
    return [row["id"] for row in got.json()["responses"]]


def test_the_owner_finds_their_own_by_title_prompt_and_answer_newest_first(owner: User, stranger: User) -> None:
    cats = make_response(owner, "About CATS and more.", input="first question")
    dogs = make_response(owner, "About dogs.", input="second question\nwith a fox in it")
    make_response(stranger, "About cats and dogs.")
    assert dogs.conversation is not None
    services.retitle(conversation=dogs.conversation, title="Zoology")
    for client in (signed_in(owner), with_key(owner)):
        assert listed(client) == [str(dogs.pk), str(cats.pk)]
        found = {
            words: listed(client, search=words)
            for words in ("cats", "zoology", "a fox", "FIRST", "question", "birds", "%")
        }
        assert found == {
            "cats": [str(cats.pk)], "zoology": [str(dogs.pk)], "a fox": [str(dogs.pk)], "FIRST": [str(cats.pk)],
            "question": [str(dogs.pk), str(cats.pk)], "birds": [], "%": [],
        }  # fmt: skip
    row = signed_in(owner).get(ADDRESS, {"search": "zoology"}).json()["responses"][0]
    assert row == {
        "id": str(dogs.pk), "conversation_id": str(dogs.conversation_id), "title": "Zoology",
        "prompt": "second question\nwith a fox in it", "text": "About dogs.", "status": "completed", "model": "",
        "fingerprint": "", "created_at": row["created_at"],
    }  # fmt: skip


def test_only_first_words_are_sent(owner: User) -> None:
    make_response(owner, "long " * 100, input="longer " * 100)
    (row,) = signed_in(owner).get(ADDRESS).json()["responses"]
    assert (row["prompt"], row["text"]) == (("longer " * 100)[:200], ("long " * 100)[:200])


def test_what_has_no_token_or_no_end_is_not_there(owner: User) -> None:
    refused, growing, kept = (make_response(owner, text) for text in ("refused", "growing", "kept"))
    Response.objects.filter(pk=refused.pk).update(num_answer_tokens=0)
    Response.objects.filter(pk=growing.pk).update(status=Response.Status.IN_PROGRESS)
    assert listed(signed_in(owner)) == [str(kept.pk)]


def test_the_newest_come_and_it_says_whether_there_are_more(owner: User) -> None:
    made = [make_response(owner, f"answer {number}") for number in range(3)]
    for limit, more in ((2, True), (3, False)):
        got = signed_in(owner).get(ADDRESS, {"limit": limit}).json()
        assert got["more"] is more
        assert [row["id"] for row in got["responses"]] == [str(one.pk) for one in made[::-1][:limit]]


@pytest.mark.parametrize(("name", "value"), [("limit", "0"), ("limit", "x"), ("limit", "201")])
def test_what_makes_no_sense_is_named(owner: User, name: str, value: str) -> None:
    got = signed_in(owner).get(ADDRESS, {name: value})
    assert (got.status_code, got.json()["error"]["field"]) == (400, name)


def test_nobody_else_finds_it_not_even_with_its_link(owner: User, stranger: User, staff: User, guest: User) -> None:
    response = make_response(owner, "Because of the chicken.")
    share = services.share(response=response)
    for other in (stranger, staff, guest):
        for client in (signed_in(other), with_key(other)):
            assert client.get(f"/api/v1/shared/{share.token}").status_code == 200  # they hold the link
            assert listed(client) == listed(client, search="chicken") == []
            assert client.get(path(response)).status_code == 404
    visitor = Client()
    assert visitor.get(ADDRESS).json() == {"responses": [], "more": False}
    assert visitor.get(f"/api/v1/shared/{share.token}").status_code == 200
    assert visitor.get(path(response)).status_code == 401
    assert visitor.post(ADDRESS).status_code == 405
