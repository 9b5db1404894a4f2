"""Another answer to the same prompt: once more, or from one token on. Who may, what comes of it, what is refused."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.service.site import FAKE_TEXT, Site
from tests.service.socket_client import Event, Talk, by_key, text_of

LONG = 1000


@pytest.fixture(scope="module")
def first(site: Site, key: str) -> list[Event]:
    """All events of an answer of the owner."""
    with by_key(site, key) as talk:
        talk.create("Tell me a political joke", instructions="Be brief.", sampling={"seed": 7})
        return talk.to_end()


def steps(events: list[Event]) -> list[Event]:
    return [event for event in events if event["type"] == "trace.step"]


def again(talk: Talk, **more: Any) -> list[Event]:
    """Ask with no new message, and listen to the end."""
    talk.send({"type": "response.create", "event_id": uuid.uuid4().hex, "input": [], **more})
    return talk.to_end()


def branch_of(events: list[Event], step: int, token: int) -> dict[str, Any]:
    return {"response_id": events[0]["response_id"], "step": step, "token": token}


def test_a_branch_keeps_what_came_before_and_goes_on_from_the_chosen_token(
    site: Site, key: str, first: list[Event]
) -> None:
    before = steps(first)
    step = 6
    (token, token_text, *_) = next(row for row in before[step]["candidates"] if row[0] != before[step]["token"])
    with by_key(site, key) as talk:
        branched = again(talk, branch=branch_of(first, step, token), sampling={"seed": 7})
    after = steps(branched)
    created = branched[0]
    assert created["branch"] == branch_of(first, step, token)
    for name in ("conversation_id", "message_id", "parent_id"):
        assert created[name] == first[0][name]
    assert created["answer_id"] != first[0]["answer_id"]
    assert [one["token"] for one in after[:step]] == [one["token"] for one in before[:step]]
    assert (after[step]["token"], after[step]["token_text"]) == (token, token_text)
    assert [one["step"] for one in after if one["given"]] == list(range(step + 1))
    assert [one["token"] for one in after[step + 1 :]] == [one["token"] for one in before[step + 1 :]]
    expected = "".join(one["token_text"] for one in before[:step]) + token_text
    assert text_of(branched).startswith(expected)
    assert branched[-1]["text"] == text_of(branched)
    prompts = [
        next(event["data"] for event in events if event.get("stage") == "tokens") for events in (first, branched)
    ]
    assert prompts[0] == prompts[1]


def test_a_branch_of_a_branch_and_one_that_ends_the_answer(site: Site, key: str, first: list[Event]) -> None:
    end = steps(first)[-1]["token"]
    with by_key(site, key) as talk:
        other = again(talk, branch=branch_of(first, 2, 300))
        short = again(talk, branch=branch_of(other, 4, end))
    tokens = [one["token"] for one in steps(short)]
    assert tokens == [*(one["token"] for one in steps(other)[:4]), end]
    assert short[-1]["type"] == "response.completed"
    assert FAKE_TEXT.split()[0] in short[-1]["text"]


def test_the_same_message_is_answered_again_beside_the_first(site: Site, key: str, first: list[Event]) -> None:
    message, conversation = first[0]["message_id"], first[0]["conversation_id"]
    with by_key(site, key) as talk:
        second = again(talk, parent_id=message, conversation_id=conversation)
        new_words = again(talk, parent_id=message, conversation_id=conversation, instructions="Shout.")
    assert (second[0]["message_id"], second[0]["branch"]) == (message, None)
    assert second[-1]["text"] == FAKE_TEXT
    texts = [
        [one["text"] for one in next(e["data"]["segments"] for e in events if e.get("stage") == "prompt")]
        for events in (first, second, new_words)
    ]
    assert texts[0] == texts[1]
    assert "Be brief." in texts[1]
    assert "Shout." in texts[2]


def test_versions_stand_under_one_message(site: Site, first: list[Event]) -> None:
    code = f"""
from webtrace.conversations.models import Message
found = Message.objects.filter(conversation="{first[0]["conversation_id"]}")
result = [[one.role, str(one.parent_id)] for one in found]
"""
    found = site.python(code)
    assert [role for role, _ in found].count("user") == 1
    answers = [parent for role, parent in found if role == "assistant"]
    assert set(answers) == {first[0]["message_id"]}


@pytest.mark.parametrize(
    ("change", "field", "code"),
    [
        ({"step": -1}, "branch.step", "invalid_value"),
        ({"step": LONG}, "branch.step", "invalid_value"),
        ({"token": -1}, "branch.token", "invalid_value"),
        ({"token": 10**9}, "branch.token", "invalid_value"),
        ({"token": 1}, "branch.token", "invalid_value"),  # <|im_start|>: no answer opens a turn
        ({"response_id": "nothing"}, "branch.response_id", "not_found"),
    ],
)
def test_what_cannot_be_branched_from_is_refused_by_its_field(
    site: Site, key: str, first: list[Event], change: dict[str, Any], field: str, code: str
) -> None:
    with by_key(site, key) as talk:
        end = again(talk, branch={**branch_of(first, 3, 300), **change})[-1]
    assert (end["type"], end["finish_reason"]) == ("response.failed", "refused")
    assert (end["error"]["field"], end["error"]["code"]) == (field, code)


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"input": "hello"}, "input"),
        ({"instructions": "x"}, "instructions"),
        ({"parent_id": "x"}, "parent_id"),
        ({"sampling": {"max_tokens": 3}}, "sampling.max_tokens"),
    ],
)
def test_a_branch_brings_nothing_else(
    site: Site, key: str, first: list[Event], more: dict[str, Any], field: str
) -> None:
    with by_key(site, key) as talk:
        end = again(talk, branch=branch_of(first, 3, 300), **more)[-1]
    assert end["error"]["field"] == field
    assert end["error"]["message"].startswith(field)


def test_nobody_branches_or_answers_again_what_is_not_theirs(site: Site, key: str, first: list[Event]) -> None:
    with by_key(site, site.new_key()) as stranger:
        end = again(stranger, branch=branch_of(first, 3, 300))[-1]
        assert (end["error"]["code"], end["error"]["field"]) == ("not_found", "branch.response_id")
        end = again(stranger, parent_id=first[0]["message_id"])[-1]
        assert (end["error"]["code"], end["error"]["field"]) == ("not_found", "parent_id")
        end = again(stranger)[-1]
        assert end["error"]["field"] == "input"


def test_an_answer_that_still_grows_is_not_branched(site: Site, key: str) -> None:
    with by_key(site, key) as talk, by_key(site, key) as other:
        talk.create()
        growing = talk.until("response.output_text.delta")
        end = again(other, branch=branch_of(growing, 0, 300))[-1]
        assert (end["error"]["field"], "not finished" in end["error"]["message"]) == ("branch.response_id", True)
        talk.to_end()


def test_other_instructions_make_another_prompt_which_is_no_branch(site: Site, key: str) -> None:
    with by_key(site, key) as talk:
        talk.create(instructions="One.")
        events = talk.to_end()
        conversation = events[0]["conversation_id"]
        talk.create("And now?", conversation_id=conversation)  # by the conversation's own instructions
        follow_up = talk.to_end()
        assert again(talk, branch=branch_of(follow_up, 1, 300))[-1]["type"] == "response.completed"
        site.python(
            "from webtrace.conversations.models import Conversation\n"
            f"result = Conversation.objects.filter(pk='{conversation}').update(instructions='Two.')"
        )
        end = again(talk, branch=branch_of(follow_up, 1, 300))[-1]
        assert (end["type"], end["error"]["field"]) == ("response.failed", "branch.response_id")
        assert "another prompt" in end["error"]["message"]
        assert again(talk, branch=branch_of(events, 1, 300))[-1]["type"] == "response.completed"
