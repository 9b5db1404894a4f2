"""A request's whole journey through a live service: every stage, every end, and what is stored of it."""

from __future__ import annotations

import json
import time
from typing import Any

import msgspec
import pytest

from tests.service.site import FAKE_TEXT, Site
from tests.service.socket_client import Event, Talk, by_key, text_of
from webtrace.events import ServerMessage
from webtrace.reporting.stage_reports import REPORTS
from webtrace.stages import BY_SLUG

MODEL_STAGES = [slug for slug, stage in BY_SLUG.items() if stage.stretch == "inside a layer"]


def stages(events: list[Event]) -> dict[str, Event]:
    return {event["stage"]: event for event in events if event["type"] == "trace.stage"}


def steps(events: list[Event]) -> list[Event]:
    return [event for event in events if event["type"] == "trace.step"]


def stored(site: Site, response_id: str) -> dict[str, Any]:
    """The response's row, its answer and the number of its jobs and batches."""
    code = f"""
from django.forms import model_to_dict
from webtrace.conversations.models import EventBatch, Response
from webtrace.dispatch.models import Job
row = Response.objects.select_related("answer").get(pk="{response_id}")
names = ("status", "finish_reason", "error_code", "refused_at_stage", "text", "epoch", "token_ids",
         "num_prompt_tokens", "num_answer_tokens", "queue_ms", "time_to_first_token_ms", "end_to_end_ms", "resources")
result = {{name: getattr(row, name) for name in names}}
result["answer"] = row.answer and row.answer.content
result["jobs"] = Job.objects.filter(pk=row.pk).count()
result["batches"] = EventBatch.objects.filter(response=row).count()
"""
    found: dict[str, Any] = site.python(code)
    return found


@pytest.fixture(scope="module")
def answered(site: Site) -> list[Event]:
    """All events of one plain answer."""
    with by_key(site, site.new_key()) as talk:
        talk.create("Tell me a political joke", sampling={"seed": 7, "logit_bias": {"5": 1.5}})
        return talk.to_end()


def test_every_event_has_its_type_and_every_report_its_fields(answered: list[Event]) -> None:
    for event in answered:
        msgspec.json.decode(json.dumps(event), type=ServerMessage)
        if event["type"] == "trace.stage":
            msgspec.convert(event["data"], REPORTS[event["stage"]], strict=True)
            assert event["input"], event["stage"]
            assert event["operation"], event["stage"]
            assert event["output"], event["stage"]


def test_every_stage_reports_once_and_in_order(answered: list[Event]) -> None:
    told = [event["stage"] for event in answered if event["type"] == "trace.stage"]
    catalogue = [slug for slug in BY_SLUG if slug in told]
    assert set(told) == set(BY_SLUG)
    assert sorted(told) == sorted(catalogue), "once each"
    assert [slug for slug in told if slug not in MODEL_STAGES] == [
        slug for slug in catalogue if slug not in MODEL_STAGES
    ]


def test_times_are_those_of_one_clock(answered: list[Event]) -> None:
    found = stages(answered)
    whole = found["stream"]["data"]["end_to_end_ms"]
    for slug, event in found.items():
        if event["clock"] == "worker" and event["started_ms"] is not None:
            assert 0 <= event["started_ms"] <= whole + 1000, slug
    arrivals = [event["timing"]["at_ms"] for event in steps(answered)]
    assert arrivals == sorted(arrivals)
    assert found["stream"]["data"]["time_to_first_token_ms"] >= arrivals[0]


def test_values_of_a_stage_are_this_request_s_own(answered: list[Event]) -> None:
    found = stages(answered)
    tokens, ids = found["tokens"]["data"], found["token_ids"]["data"]
    first, last = tokens["user_span"]
    assert "".join(piece[2] for piece in tokens["pieces"][first:last]) == "Tell me a political joke"
    assert [piece[1] for piece in tokens["pieces"]] == ids["ids"]
    assert found["prompt"]["data"]["num_tokens"] == tokens["num_tokens"] == len(ids["ids"])
    made = steps(answered)
    assert [one["step"] for one in made] == list(range(len(made)))
    assert [one["position"] for one in made] == [tokens["num_tokens"] + number for number in range(len(made))]
    assert "".join(one["text"] for one in made) == text_of(answered) == FAKE_TEXT
    cache = found["kv_cache"]["data"]
    assert cache["rows_computed"] + cache["num_prefix_tokens"] == tokens["num_tokens"] + len(made) - 1
    assert cache["rows_reused"] == sum(one["kv"]["rows_reused"] for one in made)
    assert found["append"]["data"]["num_steps"] == len(made)
    assert found["sampling"]["data"]["seed"] == 7
    assert found["sampling"]["data"]["token"] == made[0]["token"]
    assert found["detokenize"]["data"]["num_characters"] == len(FAKE_TEXT)
    assert found["stream"]["data"]["num_bytes"] == len(FAKE_TEXT.encode())
    assert found["routing"]["data"]["workers"][0]["chosen"] is True


def test_what_is_stored_is_what_was_told(site: Site, answered: list[Event]) -> None:
    end = answered[-1]
    row = stored(site, end["response_id"])
    assert (row["status"], row["finish_reason"], row["text"], row["answer"]) == (
        "completed", "stop", FAKE_TEXT, FAKE_TEXT,
    )  # fmt: skip
    assert row["num_prompt_tokens"] == end["usage"]["input_tokens"]
    assert row["num_answer_tokens"] == end["usage"]["output_tokens"] == len(steps(answered))
    ids = stages(answered)["token_ids"]["data"]["ids"]
    assert row["token_ids"] == ids + [one["token"] for one in steps(answered)]
    assert 0 <= row["queue_ms"] <= row["time_to_first_token_ms"] <= row["end_to_end_ms"] + 1
    assert (row["jobs"], row["batches"]) == (0, 2)


def test_two_responses_at_once_keep_their_own_text(site: Site, key: str) -> None:
    words = FAKE_TEXT.split(" ")
    with by_key(site, key) as talk:
        for limit in (150, 12):
            talk.create(sampling={"max_tokens": limit})
        events, ends = list[Event](), dict[str, Event]()
        while len(ends) < 2:
            events.append(talk.next())
            if "finish_reason" in events[-1]:
                ends[events[-1]["finish_reason"]] = events[-1]
    for end in ends.values():
        assert text_of(events, end["response_id"]) == end["text"]
    assert ends["stop"]["text"] == FAKE_TEXT
    assert FAKE_TEXT.startswith(ends["length"]["text"])
    assert 0 < len(ends["length"]["text"].split(" ")) < len(words)
    assert list(ends) == ["length", "stop"], "the shorter one was asked for later and ended first"


@pytest.mark.parametrize("after_s", [0.0, 0.05, 0.3])
def test_cancel_ends_at_once_and_the_steps_stop(site: Site, key: str, after_s: float) -> None:
    with by_key(site, key) as talk:
        talk.create()
        created = talk.next()
        deadline = time.monotonic() + after_s
        events = [created]
        while (left := deadline - time.monotonic()) > 0:
            try:
                events.append(talk.next(timeout=left))
            except TimeoutError:
                break
        talk.send({"type": "response.cancel", "event_id": "c", "response_id": created["response_id"]})
        events += talk.to_end()
    end = events[-1]
    assert (end["type"], end["finish_reason"]) == ("response.cancelled", "cancelled")
    assert end["usage"]["output_tokens"] == len(steps(events)) < 100
    assert text_of(events) == end["text"]
    assert stored(site, end["response_id"])["text"] == end["text"]


def test_a_new_request_right_after_a_cancel_has_its_own_answer(site: Site, key: str) -> None:
    with by_key(site, key) as talk:
        talk.create("one")
        first = talk.until("trace.step")[0]
        talk.send({"type": "response.cancel", "event_id": "c", "response_id": first["response_id"]})
        talk.create("two", conversation_id=first["conversation_id"])
        events = talk.until("response.completed")
    second = next(event for event in events if event["type"] == "response.created")
    assert second["parent_id"] == first["answer_id"]
    assert text_of(events, second["response_id"]) == FAKE_TEXT


def test_history_and_instructions_reach_the_prompt(site: Site, key: str) -> None:
    with by_key(site, key) as talk:
        talk.create("The first question", instructions="Answer in verse.")
        first = talk.to_end()
        talk.create("The second question", conversation_id=first[0]["conversation_id"])
        second = talk.to_end()
        talk.create("Another first question", conversation_id=first[0]["conversation_id"], parent_id="root")
        beside = talk.to_end()
    segments = stages(second)["prompt"]["data"]["segments"]
    told = [(row["source"], row["role"], row["text"]) for row in segments if row["source"] != "marker"]
    assert told == [
        ("system", "system", "Answer in verse."),
        ("history", "user", "The first question"),
        ("history", "assistant", FAKE_TEXT),
        ("user", "user", "The second question"),
    ]
    assert second[0]["parent_id"] == first[0]["answer_id"]
    assert beside[0]["parent_id"] is None
    assert not [row for row in stages(beside)["prompt"]["data"]["segments"] if row["source"] == "history"]


def test_instructions_are_judged_as_the_input_is(site: Site, key: str) -> None:
    with by_key(site, key) as talk:
        talk.create("The first question", instructions="My card is 4111 1111 1111 1111.")
        first = talk.to_end()
        talk.create("The second question", conversation_id=first[0]["conversation_id"])
        second = talk.to_end()
    for told in (first, second):  # sent with the request, and kept with the conversation
        assert stages(told)["input_safety"]["data"]["decision"] == "constrain"


def test_a_list_of_messages_is_instructions_history_and_input(site: Site, key: str) -> None:
    given = [("system", "Be brief."), ("user", "Hello"), ("assistant", "Hi"), ("user", "And now?")]
    with by_key(site, key) as talk:
        talk.send(
            {
                "type": "response.create", "event_id": "list",
                "input": [{"role": role, "content": content} for role, content in given],
            }
        )  # fmt: skip
        events = talk.to_end()
    segments = stages(events)["prompt"]["data"]["segments"]
    assert [row["source"] for row in segments if row["source"] != "marker"] == [
        "system", "history", "history", "user",
    ]  # fmt: skip


def test_a_prompt_over_the_context_is_refused_with_both_numbers(site: Site, key: str) -> None:
    with by_key(site, key) as talk:
        talk.create("word " * 9000)
        events = talk.to_end()
    end = events[-1]
    assert (end["type"], end["finish_reason"], end["text"]) == ("response.failed", "refused", "")
    assert end["error"]["code"] == "context_length_exceeded"
    assert end["error"]["field"] == "input"
    assert "9,0" in end["error"]["message"]
    assert "8,192" in end["error"]["message"]
    assert end["usage"]["output_tokens"] == 0
    told = stages(events)
    assert told["prompt"]["outcome"] == "ended_here"
    assert list(told)[-1] == "prompt"
    row = stored(site, end["response_id"])
    assert (row["refused_at_stage"], row["error_code"], row["token_ids"]) == ("prompt", "context_length_exceeded", [])


def test_stop_strings_and_limits(site: Site, key: str) -> None:
    with by_key(site, key) as talk:
        talk.create(sampling={"stop": ["word5 word6"]})
        stopped = talk.to_end()
        talk.create(sampling={"max_tokens": 5})
        limited = talk.to_end()
    assert (stopped[-1]["finish_reason"], stopped[-1]["text"]) == ("stop", "word0 word1 word2 word3 word4 ")
    assert stages(stopped)["append"]["data"]["stop"] == "word5 word6"
    assert "word5" not in text_of(stopped)
    assert (limited[-1]["type"], limited[-1]["finish_reason"]) == ("response.incomplete", "length")
    assert limited[-1]["usage"]["output_tokens"] == 5


def test_without_trace_only_text_is_sent(site: Site, key: str) -> None:
    with by_key(site, key) as talk:
        talk.create(trace=False)
        events = talk.to_end()
    assert not [event for event in events if event["type"].startswith("trace.")]
    assert text_of(events) == FAKE_TEXT


def test_the_same_event_again_is_the_same_response(site: Site, key: str) -> None:
    with by_key(site, key) as talk:
        talk.create("once", event_id="same")
        first = talk.to_end()
    with by_key(site, key) as talk:
        talk.create("once", event_id="same")
        again = talk.to_end()
        talk.create("something else", event_id="same")
        error = talk.next()
    assert again == first
    assert (error["type"], error["code"], error["field"]) == ("error", "event_id_reused", "event_id")


def test_a_reader_that_comes_back_gets_exactly_what_it_missed(site: Site, key: str) -> None:
    with by_key(site, key) as talk:
        talk.create()
        seen = talk.until("trace.step")
    last = seen[-1]
    with by_key(site, key) as talk:
        _resume(talk, last)
        rest = talk.to_end()
    with by_key(site, key) as talk:
        _resume(talk, {"response_id": last["response_id"], "epoch": 0, "sequence_number": 0})
        assert talk.to_end() == seen + rest


def _resume(talk: Talk, last: Event) -> None:
    talk.send(
        {
            "type": "response.resume", "event_id": "r", "response_id": last["response_id"], "epoch": last["epoch"],
            "after": last["sequence_number"],
        }
    )  # fmt: skip
