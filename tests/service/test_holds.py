"""Breakpoints: where a response is held, who lets it go on, and what a hold leaves alone."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.service.browser import Browser
from tests.service.site import FAKE_TEXT, Site
from tests.service.socket_client import ENDS, Event, Talk, by_key, text_of
from tests.service.test_worker_parts import Database, database, hub, recording, until
from tests.service.work import make_waiting, make_worker, take
from webtrace.accounts.models import User
from webtrace.breakpoints import Breakpoints, after_stage, after_step, parse, problem_with
from webtrace.client_events import StepPoint
from webtrace.conversations.models import Response
from webtrace.dispatch import holds, workers
from webtrace.dispatch.sweep import sweep
from webtrace.reporting.timing import Stages
from webtrace.running.holds import Holds
from webtrace.stages import BY_SLUG

__all__ = ["database", "hub"]  # fixtures


def go_on(talk: Talk, response_id: str, where: Any = "next") -> None:
    talk.send({"type": "response.continue", "event_id": "go", "response_id": response_id, "until": where})


def to_hold(talk: Talk) -> list[Event]:
    events = talk.until("response.held", *(f"response.{end}" for end in ENDS))
    assert events[-1]["type"] == "response.held"
    return events


def place(event: Event) -> tuple[str, int | None]:
    return event["stage"], event["step"]


def told(events: list[Event]) -> list[str]:
    return [event["stage"] for event in events if event["type"] == "trace.stage"]


def test_a_response_holds_where_it_is_asked_to_with_everything_before_told(site: Site, key: str) -> None:
    points = ["kv_cache", "gateway", {"step": 3}, "input_safety", "softmax"]
    with by_key(site, key) as talk:
        talk.create(breakpoints=points)
        events: list[Event] = []
        held: list[tuple[str, int | None]] = []
        for _ in points:
            events += to_hold(talk)
            held.append(place(events[-1]))
            num_steps = sum(event["type"] == "trace.step" for event in events)
            match held[-1]:
                case "softmax", 0:
                    assert {"qkv", "softmax"} <= set(told(events))
                    assert (num_steps, text_of(events)) == (0, ""), "no token is shown yet"
                case "sampling", 3:
                    assert (num_steps, text_of(events)) == (4, FAKE_TEXT[: len(text_of(events))])
                case stage, None:
                    assert told(events)[-1] == stage or stage == "kv_cache"
            go_on(talk, events[0]["response_id"], {"step": 200} if held[-1][0] != "kv_cache" else "end")
        events += talk.to_end()
    assert held == [("gateway", None), ("input_safety", None), ("softmax", 0), ("sampling", 3), ("kv_cache", None)]
    assert (events[-1]["finish_reason"], text_of(events)) == ("stop", FAKE_TEXT)
    assert [place(event) for event in events if event["type"] == "response.continued"] == held
    assert {event["by"] for event in events if event["type"] == "response.continued"} == {"request"}
    for event in [event for event in events if event["type"] == "response.held"]:
        assert event["releases_after_s"] == 60


def test_next_goes_from_place_to_place(site: Site, key: str) -> None:
    order = list(BY_SLUG)
    with by_key(site, key) as talk:
        talk.create(breakpoints=["tokens"], sampling={"max_tokens": 3})
        held, events = [], list[Event]()
        for _ in range(40):
            events += talk.until("response.held", *(f"response.{end}" for end in ENDS))
            if events[-1]["type"] != "response.held":
                break
            held.append(place(events[-1]))
            go_on(talk, events[0]["response_id"])
    before, within, after = (order.index(slug) for slug in ("tokens", "embeddings", "append"))
    assert held == [
        *((slug, None) for slug in order[before:within]),
        *((slug, 0) for slug in order[within:after]),
        ("sampling", 1), ("sampling", 2),
        *((slug, None) for slug in order[after:]),
    ]  # fmt: skip
    assert events[-1]["finish_reason"] == "length"


def test_others_run_on_and_the_hold_is_no_part_of_any_latency(site: Site, key: str) -> None:
    began = time.monotonic()
    with by_key(site, key) as talk, by_key(site, key) as other:
        talk.create(breakpoints=[{"step": 2}])
        events = to_hold(talk)
        other.create()
        assert text_of(other.to_end()) == FAKE_TEXT
        go_on(talk, events[0]["response_id"], "end")
        events += talk.to_end()
        wall_ms = 1000 * (time.monotonic() - began)
    (continued,) = [event for event in events if event["type"] == "response.continued"]
    stream = next(event["data"] for event in events if event.get("stage") == "stream")
    assert continued["held_ms"] > 100
    assert stream["end_to_end_ms"] + continued["held_ms"] <= wall_ms
    assert stream["inter_token_ms_p95"] < continued["held_ms"]
    arrivals = [event["timing"]["at_ms"] for event in events if event["type"] == "trace.step"]
    assert arrivals == sorted(arrivals)
    code = "from webtrace.conversations.models import Response\n"
    row = f"Response.objects.get(pk='{events[0]['response_id']}')"
    end_to_end, resources = site.python(f"{code}row = {row}\nresult = [row.end_to_end_ms, row.resources]")
    assert end_to_end + resources["held_ms"] <= wall_ms
    assert resources["held_ms"] == pytest.approx(continued["held_ms"], rel=1e-3)


def test_a_hold_survives_a_reload_and_a_cancel_ends_it_at_once(site: Site, key: str) -> None:
    with by_key(site, key) as talk:
        talk.create(breakpoints=["softmax", {"step": 1}])
        seen = to_hold(talk)
    response_id = seen[0]["response_id"]
    program = Browser(site.url, {"Authorization": f"Bearer {key}"})
    held = program.get(f"/api/v1/responses/{response_id}").json()["held"]
    assert (held["stage"], held["step"]) == ("softmax", 0)
    assert 0 < held["releases_in_s"] <= 60
    with by_key(site, key) as talk:
        talk.send({"type": "response.resume", "event_id": "r", "response_id": response_id})
        assert to_hold(talk) == seen
        go_on(talk, response_id)
        assert place(to_hold(talk)[-1]) == ("weighted_sum", 0)
        talk.send({"type": "response.cancel", "event_id": "c", "response_id": response_id})
        end = talk.to_end()[-1]
    assert (end["type"], end["finish_reason"], end["text"]) == (
        "response.cancelled", "cancelled", FAKE_TEXT[: len(end["text"])],
    )  # fmt: skip
    assert end["usage"]["output_tokens"] == 1
    assert program.get(f"/api/v1/responses/{response_id}").json()["held"] is None


def test_only_the_owner_lets_it_go_on_and_nonsense_is_named(site: Site, key: str) -> None:
    with by_key(site, key) as talk, by_key(site, site.new_key()) as stranger:
        talk.create(breakpoints=["softmax"])
        response_id = to_hold(talk)[0]["response_id"]
        go_on(stranger, response_id)
        assert stranger.next()["code"] == "not_found"
        for where, code, field in (
            ("elsewhere", "invalid_value", "until"),
            ({"step": -1}, "invalid_value", "until"),
            ({"stage": 3}, "invalid_value", "until.stage"),
            ("tokens", "invalid_value", "until"),
            ("softmax", "invalid_value", "until"),
        ):
            go_on(talk, response_id, where)
            error = talk.next()
            assert (error["type"], error["code"], error["field"], error["event_id"]) == ("error", code, field, "go")
        go_on(talk, response_id, "end")
        assert talk.to_end()[-1]["type"] == "response.completed"
        go_on(talk, response_id)
        assert talk.next()["code"] == "not_held"


def test_breakpoints_are_put_in_the_place_of_others_and_the_record_says_so(site: Site, key: str) -> None:
    program = Browser(site.url, {"Authorization": f"Bearer {key}"})
    with by_key(site, key) as talk:
        talk.create(breakpoints=["gateway", "prompt", {"step": 2}], sampling={"max_tokens": 6})
        response_id = to_hold(talk)[0]["response_id"]

        def kept() -> Any:
            return program.get(f"/api/v1/responses/{response_id}").json()["breakpoints"]

        def go(until: Any, breakpoints: Any = None) -> Any:
            frame = {"type": "response.continue", "event_id": "go", "response_id": response_id, "until": until}
            talk.send({**frame, "breakpoints": breakpoints})

        assert kept() == ["gateway", "prompt", {"step": 2}]
        for wrong, field in ((["prompt", "colour"], "breakpoints[1]"), ([{"step": -1}], "breakpoints[0]")):
            go("next", wrong)
            assert talk.next()["field"] == field
        assert kept() == ["gateway", "prompt", {"step": 2}]
        go("next", ["gateway", {"step": 1}, {"step": 900}])
        assert place(to_hold(talk)[-1])[0] == "retrieval"
        assert kept() == ["gateway", {"step": 1}, {"step": 900}]
        go({"step": 3})
        assert place(to_hold(talk)[-1]) == ("sampling", 1)  # "prompt" is none any more
        assert kept() == ["gateway", {"step": 1}, {"step": 900}, {"step": 3}]
        go({"step": 900}, ["gateway", {"step": 900}])
        assert talk.to_end()[-1]["finish_reason"] == "length"
        assert kept() == ["gateway", "prompt", {"step": 2}], "what the request asked for stays on record"


@pytest.mark.parametrize(
    ("points", "field"),
    [
        (["colour"], "breakpoints[0]"),
        (["softmax", {"step": 10}], "breakpoints[1].step"),
        (["softmax", {"step": -1}], "breakpoints[1]"),
        (["softmax"] * 65, "breakpoints"),
        ([{"step": 9}, "request", "storage"], None),
    ],
)
def test_breakpoints_that_make_no_sense_are_named(points: list[Any], field: str | None) -> None:
    read = [StepPoint(point["step"]) if isinstance(point, dict) else point for point in points]
    problem = problem_with(read, max_tokens=10)
    assert (problem.field if problem else None) == field
    assert problem is None or problem.message.startswith(field or "")


def test_a_refused_breakpoint_ends_the_journey_at_the_gateway(site: Site, key: str) -> None:
    with by_key(site, key) as talk:
        talk.create(breakpoints=["colour"])
        end = talk.to_end()[-1]
    assert (end["error"]["code"], end["error"]["field"]) == ("invalid_value", "breakpoints[0]")


def test_the_engine_is_told_the_steps_that_are_still_ahead() -> None:
    points = Breakpoints([parse("softmax"), parse(StepPoint(3)), parse("kv_cache")])
    assert points.steps() == [0, 3]
    points.pass_by(after_step(0))
    assert points.steps(done=0) == [3]
    points.go("next")
    assert points.steps(done=0) == [1, 3]
    points.pass_by(after_step(1))
    assert points.steps(done=1) == [3]
    points.go("end")
    assert points.steps(done=1) == []
    assert not points.hold_at(after_stage("kv_cache"))


@pytest.mark.django_db(transaction=True)  # its thread looks after connections that other tests left
async def test_a_hold_ends_by_itself(
    monkeypatch: pytest.MonkeyPatch, settings: Any, database: Database, hub: Any
) -> None:
    entered, left = [], []
    monkeypatch.setattr(holds, "enter", lambda **fields: entered.append(fields))
    monkeypatch.setattr(holds, "leave", lambda **fields: left.append(fields))
    settings.HOLD_S = 0.01
    async with recording() as (_, one):
        stages = Stages(time.perf_counter(), "worker", lambda fields: None)
        waiting = Holds(Breakpoints([after_stage("prompt")]), one, stages)
        await waiting.after("retrieval")
        assert not entered
        await waiting.after("prompt")
        assert [fields["stage"] for fields in entered] == ["prompt"]
        assert left
        assert stages.left_out_ms >= 10
        await until(lambda: len(hub()) == 3)
    assert [line.type for line in hub()[1:]] == ["response.held", "response.continued"]
    assert '"by":"timeout"' in hub()[2].text


def test_a_hold_of_a_lost_worker_ends_interrupted(owner: User) -> None:
    response = make_waiting(owner)
    take(response, make_worker())
    holds.enter(response_id=response.pk, stage="softmax", step=0)
    workers.stop(worker_id="w1")
    assert [ended.response_id for ended in sweep().ended] == [response.pk]
    response.refresh_from_db()
    assert response.status == Response.Status.INTERRUPTED
    assert holds.held_place(response.pk) is None
    with pytest.raises(holds.NotHeld):
        holds.ask(response_id=response.pk, until="next")


def test_a_continue_is_asked_once_and_its_worker_reads_it(owner: User) -> None:
    response = make_waiting(owner)
    with pytest.raises(holds.NotHeld):
        holds.ask(response_id=response.pk, until="next")
    take(response, make_worker())
    holds.enter(response_id=response.pk, stage="sampling", step=3)
    with pytest.raises(holds.Passed, match="sampling, step 3"):
        holds.ask(response_id=response.pk, until=StepPoint(3))
    assert holds.asked_of(worker_id="w1") == []
    assert holds.ask(response_id=response.pk, until=StepPoint(5)) == "w1"
    with pytest.raises(holds.NotHeld):
        holds.ask(response_id=response.pk, until="end")
    assert holds.asked_of(worker_id="w1") == [holds.Asked(response.pk, after_step(3), StepPoint(5), [after_step(5)])]
    assert holds.asked_of(worker_id="w2") == []
    holds.leave(response_id=response.pk)
    assert holds.asked_of(worker_id="w1") == []
