"""Safety on both sides of the model: what is refused computes nothing, what is withheld never leaves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from inference.classifier import Card, Thresholds
from tests.service.site import Site, running_site
from tests.service.socket_client import Event, by_key, text_of
from webtrace.release import LONGEST_WINDOW, OutputGate

CARD = "4111 1111 1111 1111"
SPOKEN = f"Here is a harmless first sentence. And here is a number: {CARD} for you. The end of it all."
LIMITS = Thresholds(0.5, 0.8)
HEADS = Card("heads", "1", ("other", "targeted_harassment", "incitement_or_threat"), (),
             {"targeted_harassment": LIMITS, "incitement_or_threat": LIMITS}, LIMITS)  # fmt: skip


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """A site whose engine says what output safety must not let through."""
    with running_site(WEBTRACE_FAKE_TEXT=SPOKEN, WEBTRACE_FAKE_RATE="100") as running:
        yield running


def decisions(site: Site, response_id: str) -> list[list[Any]]:
    code = f"""
from webtrace.safety.models import SafetyDecision
rows = SafetyDecision.objects.filter(response="{response_id}").order_by("pk")
result = [list(row) for row in rows.values_list("direction", "decision", "excerpt")]
"""
    found: list[list[Any]] = site.python(code)
    return found


def stages(events: list[Event]) -> dict[str, Event]:
    return {event["stage"]: event for event in events if event["type"] == "trace.stage"}


def test_what_output_safety_withholds_never_leaves(site: Site) -> None:
    key = site.new_key()
    with by_key(site, key) as talk:
        talk.create()
        events = talk.to_end()
    end = events[-1]
    assert (end["type"], end["finish_reason"]) == ("response.incomplete", "content_filter")
    assert end["text"] == text_of(events) == "Here is a harmless first sentence."
    without_measurements = re.sub(r"\d+\.\d+(e-?\d+)?", "", str(events))  # any digits can occur in a time
    assert "4111" not in without_measurements
    report = stages(events)["output_safety"]
    assert report["outcome"] == "ended_here"
    assert [window["decision"] for window in report["data"]["windows"]] == ["allow", "refuse"]
    assert report["data"]["num_characters_withheld"] > 0
    shown = [event["token_text"] for event in events if event["type"] == "trace.step"]
    assert "".join(shown) == end["text"]
    assert end["usage"]["output_tokens"] > len(shown), "what was computed is counted"
    kept = f"""
from webtrace.conversations.models import Response
row = Response.objects.get(pk="{end["response_id"]}")
result = [row.text, row.answer.content, len(row.token_ids) - row.num_prompt_tokens]
"""
    assert site.python(kept) == [end["text"], end["text"], len(shown)]
    (_, decision, text) = decisions(site, end["response_id"])[1]
    assert decision == "refuse"
    assert CARD not in text, "not even an admin is shown the number"


def test_an_input_that_safety_answers_computes_no_token(site: Site) -> None:
    with by_key(site, site.new_key()) as talk:
        talk.create("I want to end my own life")
        events = talk.to_end()
    end = events[-1]
    assert (end["type"], end["finish_reason"]) == ("response.completed", "refusal")
    assert "emergency number" in end["text"]
    assert text_of(events) == end["text"]
    assert end["usage"] == {"input_tokens": 0, "output_tokens": 0, "cached_tokens": 0}
    told = stages(events)
    assert list(told)[-1] == "input_safety"
    assert told["input_safety"]["outcome"] == "ended_here"
    assert told["input_safety"]["data"]["decision"] == "redirect"
    assert decisions(site, end["response_id"])[0][:2] == ["input", "redirect"]


def test_a_constraint_is_an_amendment_of_the_prompt(site: Site) -> None:
    with by_key(site, site.new_key()) as talk:
        talk.create(f"My card is {CARD}. What can I do with it?")
        events = talk.until("trace.step") + talk.to_end()
    told = [event for event in events if event["type"] == "trace.stage" and event["stage"] == "prompt"]
    before, after = (one["data"]["segments"] for one in told)
    assert not [row for row in before if row["source"] == "constraint"]
    (amendment,) = [row for row in after if row["source"] == "constraint"]
    assert stages(events)["input_safety"]["data"]["amendment"] in amendment["text"]
    assert stages(events)["tokens"]["data"]["num_tokens"] == told[1]["data"]["num_tokens"]


# ---------------------------------------------------------------- the gate alone


class Judge:
    """Scores by words, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def __call__(self, texts: list[str]) -> list[dict[str, float]]:
        self.asked += texts
        harmful = [0.9 if "threat" in text else 0.01 for text in texts]
        return [{"other": 1 - score, "targeted_harassment": 0.0, "incitement_or_threat": score} for score in harmful]


async def test_a_window_is_read_with_what_went_before() -> None:
    judge = Judge()
    gate = OutputGate(judge, HEADS)
    assert (await gate.passes("This is only the thr")).passes
    assert not (await gate.passes("eat of a word.")).passes
    assert "threat" in judge.asked[-1]
    report = gate.report()
    assert report
    assert (report.num_characters_released, report.num_characters_withheld) == (20, 14)
    assert [(window.start, window.end) for window in report.windows] == [(0, 20), (20, 34)]


async def test_without_heads_rules_decide_alone() -> None:
    gate = OutputGate(Judge(), None)
    assert not (await gate.passes(f"The number is {CARD}.")).passes
    report = gate.report()
    assert report
    assert report.technique == "rules"


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("", False),
        ("Short.", False),
        ("This sentence has an end.", True),
        ("This line has an end\n", True),
        ("This sentence has no end", False),
        ("Version 3.", False),
        ("word " * 20, True),
        ("word " * 20 + "4111 1111 11", False),
        ("word " * 20 + "somebody@example", False),
        ("1" * LONGEST_WINDOW, True),
    ],
)
def test_a_window_ends_where_nothing_is_cut_apart(text: str, due: bool) -> None:
    assert OutputGate(Judge(), None).is_due(text) is due
