"""daphne, two workers, Redis and PostgreSQL: work is shared, and a killed worker costs a moment of text."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.service.fleet import FLEET_TEXT, Fleet, running_fleet
from tests.service.socket_client import Event, by_key, text_of
from tests.services import Services

pytestmark = pytest.mark.services

LONG = {"max_tokens": 1000}  # all of the text


@pytest.fixture(scope="module")
def fleet(services: Services) -> Iterator[Fleet]:
    with running_fleet(services) as running:
        yield running


def test_each_answer_goes_to_the_least_busy_worker(fleet: Fleet) -> None:
    with by_key(fleet, fleet.new_key()) as talk:
        talk.create("one", sampling=LONG)
        events = talk.until("trace.step")
        talk.create("two", sampling=LONG)
        ends: list[Event] = []
        while len(ends) < 2:
            events.append(talk.next())
            if events[-1]["type"] == "response.completed":
                ends.append(events[-1])
    for end in ends:
        assert text_of(events, end["response_id"]) == end["text"] == FLEET_TEXT
    takers = {event["response_id"]: event["worker_id"] for event in events if event["type"] == "response.in_progress"}
    for event in events:
        if event.get("stage") == "routing":
            rows = event["data"]["workers"]
            (chosen,) = [row for row in rows if row["chosen"]]
            assert chosen["worker_id"] == takers[event["response_id"]]
            least = min(row["num_running"] + row["num_waiting"] for row in rows)
            waited = "waited too long" in event["data"]["reason"]  # on a machine that is busy with other things
            assert chosen["num_running"] + chosen["num_waiting"] == least or waited


def test_cancel_reaches_the_right_worker(fleet: Fleet) -> None:
    with by_key(fleet, fleet.new_key()) as talk:
        talk.create("one", sampling=LONG)
        first = talk.until("trace.step")[0]["response_id"]
        talk.create("two", sampling=LONG)
        created = talk.until("response.created")[-1]["response_id"]
        began = time.monotonic()
        talk.send({"type": "response.cancel", "event_id": "c", "response_id": created})
        assert talk.until("response.cancelled")[-1]["response_id"] == created
        assert time.monotonic() - began < 5, "by a ring or, at the latest, by the worker's next look"
        assert talk.until("response.completed")[-1]["response_id"] == first


def test_a_hold_in_one_process_is_left_from_another(fleet: Fleet) -> None:
    with by_key(fleet, fleet.new_key()) as talk:
        talk.create(breakpoints=["prompt", {"step": 1}], sampling={"max_tokens": 5})
        held = []
        for until in ({"step": 1}, "next", "end"):
            event = talk.until("response.held")[-1]
            held.append((event["stage"], event["step"]))
            talk.send(
                {
                    "type": "response.continue", "event_id": "c", "response_id": event["response_id"], "until": until,
                }
            )  # fmt: skip
            assert talk.until("response.continued")[-1]["by"] == "request"
        assert talk.to_end()[-1]["finish_reason"] == "length"
    assert held == [("prompt", None), ("sampling", 1), ("sampling", 2)]


def test_a_killed_worker_is_noticed_and_another_goes_on(fleet: Fleet) -> None:
    key = fleet.new_key()
    with by_key(fleet, key) as talk:
        talk.create(sampling=LONG)
        events = talk.until("trace.step")
        worker = next(event["worker_id"] for event in events if event["type"] == "response.in_progress")
        fleet.workers[worker].kill()
        killed = time.monotonic()
        while events[-1]["type"] != "response.interrupted":
            events.append(talk.next(timeout=15))
        assert time.monotonic() - killed < 10
        end = events[-1]
        counted = [
            event for event in events
            if event["epoch"] == 0 or (event["epoch"], event["sequence_number"]) <= (1, end["last_sequence_number"])
        ]  # fmt: skip
        assert end["text"] == text_of(counted)
        assert FLEET_TEXT.startswith(end["text"])
        talk.create(sampling={"max_tokens": 5})
        assert talk.to_end()[-1]["finish_reason"] == "length"
    fleet.workers[worker].wait()


def test_a_worker_that_is_told_to_stop_gives_up_its_response_at_once(fleet: Fleet) -> None:
    fleet.add_worker()
    with by_key(fleet, fleet.new_key()) as talk:
        talk.create(sampling=LONG)
        events = talk.until("trace.step")
        worker = next(event["worker_id"] for event in events if event["type"] == "response.in_progress")
        fleet.workers[worker].terminate()
        events += talk.to_end()
    assert events[-1]["type"] == "response.interrupted"
    assert events[-1]["text"] == text_of(events), "nothing that was shown is lost"
    assert fleet.workers[worker].wait(timeout=20) == 0
