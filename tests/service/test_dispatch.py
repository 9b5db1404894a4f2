"""Jobs, workers, routing and the sweep: one taker, one end, and somebody always writes it."""

from __future__ import annotations

import datetime
import json
import os
import socket
from typing import Any

import msgspec
import pytest
from django.db.models.functions import Now
from django.utils import timezone

from inference.messages import Sampling
from tests.service.work import MODEL, deltas, make_waiting, make_worker, numbering, take
from webtrace.accounts.models import User
from webtrace.client_events import ResponseCreate
from webtrace.conversations import log, services
from webtrace.conversations.log import Place, Write
from webtrace.conversations.models import Message, Response
from webtrace.dispatch import jobs, routing, workers
from webtrace.dispatch import sweep as sweeping
from webtrace.dispatch.models import Job, Worker
from webtrace.dispatch.sweep import sweep

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def no_stall(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two tests no sweep runs, which says nothing about the database."""
    monkeypatch.setattr("webtrace.dispatch.sweep._stall", sweeping._Stall())


def age(seconds: float) -> Any:
    return Now() - datetime.timedelta(seconds=seconds)


def events(response: Response) -> list[dict[str, Any]]:
    return [json.loads(line.text) for line in log.read(response.pk)]


def test_one_worker_takes_a_job(owner: User) -> None:
    response, first, second = make_waiting(owner), make_worker("w1"), make_worker("w2")
    taken = take(response, first)
    assert jobs.take(response_id=response.pk, worker=second) is None
    response.refresh_from_db()
    assert (response.epoch, response.status, response.worker_id) == (1, "in_progress", "w1")
    assert response.queue_ms == taken.queue_ms >= 0
    assert [event["type"] for event in events(response)] == ["response.created", "response.in_progress"]


def test_a_queued_response_is_cancelled_at_once(owner: User) -> None:
    response, worker = make_waiting(owner), make_worker()
    result = jobs.cancel(response_id=response.pk)
    assert result.ended
    response.refresh_from_db()
    assert (response.status, response.finish_reason, response.epoch) == ("cancelled", "cancelled", 0)
    assert events(response)[-1]["sequence_number"] == 2
    assert jobs.take(response_id=response.pk, worker=worker) is None
    assert jobs.cancel(response_id=response.pk) == jobs.CancelResult()


def test_a_running_response_is_cancelled_by_its_worker(owner: User) -> None:
    response, worker = make_waiting(owner), make_worker()
    take(response, worker)
    assert jobs.cancel(response_id=response.pk, reason="disconnected").worker_id == "w1"
    jobs.cancel(response_id=response.pk)
    assert jobs.cancels_of(worker_id="w1") == {response.pk: "disconnected"}, "the first reason stays"


def test_a_silent_worker_is_lost_and_its_response_interrupted(owner: User) -> None:
    response, worker = make_waiting(owner), make_worker()
    take(response, worker)
    log.append([Write(response.pk, 1, deltas(numbering(response.pk, 1, 1), "half an "), {"text": "half an "})])
    assert sweep().ended == []
    Worker.objects.update(seen_at=age(7))
    (ended,) = sweep().ended
    assert sweep().ended == [], "once"
    response.refresh_from_db()
    answer = Message.objects.get(response=response)
    assert (response.status, response.finish_reason, response.text) == ("interrupted", "worker_lost", "half an ")
    assert answer.content == "half an "
    end = events(response)[-1]
    assert (end["type"], end["epoch"], end["sequence_number"]) == ("response.interrupted", 2, 1)
    assert (end["last_sequence_number"], end["text"]) == (2, "half an ")
    assert [line.place for line in ended.lines] == [Place(2, 1)]
    assert not Job.objects.exists()


def test_nobody_is_lost_because_the_database_let_nobody_write(
    owner: User, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    response, worker = make_waiting(owner), make_worker()
    take(response, worker)
    Worker.objects.update(seen_at=age(60))
    Job.objects.update(watched_at=age(60))
    with monkeypatch.context() as locked:
        locked.setattr("webtrace.dispatch.sweep.seconds_to_write", lambda: 10.0)
        assert sweep() == sweeping.Found()
    assert sweep() == sweeping.Found()  # the lease may be renewed now
    settings.LEASE_S = 0  # and this is how long that may take
    assert [ended.response_id for ended in sweep().ended] == [response.pk]


def test_a_stopped_worker_is_not_waited_for(owner: User) -> None:
    response, worker = make_waiting(owner), make_worker()
    take(response, worker)
    workers.stop(worker_id=worker.pk)
    assert [ended.response_id for ended in sweep().ended] == [response.pk]


def test_workers_of_dead_processes_are_stopped_at_start() -> None:
    for worker_id, host, process_id in (("own", socket.gethostname(), os.getpid()), ("far", "elsewhere", 1)):
        make_worker(worker_id)
        Worker.objects.filter(pk=worker_id).update(host=host, process_id=process_id)
    make_worker("dead")
    no_process = 2**22 + 1  # above the largest process id
    Worker.objects.filter(pk="dead").update(process_id=no_process)
    workers.stop_dead_neighbours()
    assert set(workers.alive().values_list("pk", flat=True)) == {"own", "far"}


def test_nobody_watches_a_response_for_long(owner: User, settings: Any) -> None:
    running, queued, watched, worker = make_waiting(owner), make_waiting(owner), make_waiting(owner), make_worker()
    take(running, worker)
    Job.objects.update(watched_at=age(settings.UNWATCHED_GRACE_S + 1))
    jobs.watch(response_ids=[watched.pk])
    found = sweep()
    assert found.cancels == [(running.pk, "w1")]
    assert [ended.response_id for ended in found.ended] == [queued.pk]
    queued.refresh_from_db()
    assert queued.finish_reason == "disconnected"
    assert jobs.cancels_of(worker_id="w1") == {running.pk: "disconnected"}


def positions(response: Response) -> list[int]:
    return [event["position"] for event in events(response) if event["type"] == "response.queued"]


def test_who_moves_up_in_the_queue_is_told(owner: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "MOST_MOVED", 2)
    queue = [make_waiting(owner) for _ in range(4)]
    for place, response in enumerate(queue):  # they were made within one tick of the clock
        Job.objects.filter(pk=response.pk).update(created_at=age(1 - place / 10), position=place)
    assert sweep().moved == []
    take(queue[0], make_worker())
    found = sweep()
    assert {told.response_id for told in found.moved} == {queue[1].pk, queue[2].pk}, "the next ones first"
    assert [line.place for told in found.moved for line in told.lines] == [Place(0, 2)] * 2
    assert [told.response_id for told in sweep().moved] == [queue[3].pk]
    assert sweep().moved == [], "once"
    jobs.cancel(response_id=queue[2].pk)
    sweep()
    assert [positions(response) for response in queue] == [[], [0], [1], [2, 1]]
    assert events(queue[2])[-1]["sequence_number"] == 3, "after the position it was told"


def test_no_position_is_told_to_whom_another_process_told_it_or_took(owner: User) -> None:
    first, second = make_waiting(owner), make_waiting(owner)
    Job.objects.filter(pk=second.pk).update(position=5)
    take(first, make_worker())
    assert jobs.tell_positions({first.pk: 3, second.pk: 5}) == []
    assert positions(first) == positions(second) == []


def test_a_job_whose_ring_was_lost_is_rung_again(owner: User) -> None:
    response, fresh = make_waiting(owner), make_waiting(owner)
    Job.objects.filter(pk=response.pk).update(created_at=age(3))
    assert sweep().rings == [response.pk]
    assert jobs.waiting(limit=5) == [response.pk, fresh.pk]
    assert jobs.waiting(limit=5, waited_s=2) == [response.pk]


def test_an_idle_sweep_writes_nothing(owner: User, django_assert_num_queries: Any) -> None:
    make_waiting(owner)
    with django_assert_num_queries(4):
        sweep()


def test_the_position_counts_those_before(owner: User) -> None:
    first, second = make_waiting(owner), make_waiting(owner)
    third, _ = services.start_response(
        owner=owner,
        message=ResponseCreate(event_id="third", input="x"),
        sampling=Sampling(seed=1),
        transport="websocket",
    )
    assert jobs.enqueue(third, asked_from="192.0.2.1") == 2
    take(first, make_worker())
    assert jobs.waiting(limit=5) == [second.pk, third.pk]


# ---------------------------------------------------------------- routing


def choose(*some: Worker, **more: Any) -> routing.Choice:
    fields = {"requested": "auto", "previous": None, "now": timezone.now(), **more}
    return routing.choose(workers=some, **fields)


def busy(worker_id: str, num_running: int = 0, num_free_blocks: int = 64, **more: Any) -> Worker:
    worker = make_worker(worker_id, **more)
    worker.refresh_from_db()
    worker.num_running, worker.num_free_blocks = num_running, num_free_blocks
    return worker


def test_auto_is_the_first_model_of_a_list_however_busy() -> None:
    first, second = busy("a", 5), busy("b", place=1, model={**MODEL, "name": "second"})
    choice = choose(second, first, requested="auto")
    assert choice.worker == first
    assert choice.candidates[0].reason.endswith("model number 2 of its list")
    assert choose(second, first, requested="second").worker == second
    assert choose(second, requested="auto").worker == second


def test_the_least_busy_worker_with_the_model_is_chosen() -> None:
    other = busy("other", model={**MODEL, "name": "large"})
    choice = choose(busy("a", 3), busy("b", 1), other, requested="tiny")
    assert choice.worker
    assert choice.worker.pk == "b"
    assert [row.chosen for row in choice.candidates] == [False, True, False]
    assert choice.candidates[2].reason == "has large, not tiny"
    assert "responses before this one: 1;" in choice.reason


def test_the_report_names_workers_without_saying_where_they_run() -> None:
    names = {row.name for row in choose(busy("0123456789"), busy("fedcba9876")).candidates}
    assert names == {"worker 012345", "worker fedcba"}
    worker = Worker.objects.get(pk="0123456789")
    assert (worker.host, worker.process_id) == (socket.gethostname(), os.getpid())
    worker.host, worker.process_id = "inside.example.org", 987_654_321
    shown = msgspec.json.encode(choose(worker).candidates).decode() + choose(worker).reason
    assert "inside" not in shown
    assert "987654321" not in shown


def test_a_warm_prefix_is_worth_two_responses() -> None:
    a, b = busy("a", 2), busy("b", 1)
    assert choose(a, b, previous="a").worker is a
    a.num_running = 4
    assert choose(a, b, previous="a").worker is b


def test_an_own_region_comes_first() -> None:
    far = busy("far")
    far.region = "moon"
    here = busy("here", 5)
    assert choose(far, here).worker is here


def test_an_impatient_worker_takes_what_waited_too_long() -> None:
    choice = choose(busy("a", 3), busy("b", 0), impatient="a")
    assert choice.worker
    assert choice.worker.pk == "a"
    assert "waited too long" in choice.reason
    assert [row.chosen for row in choice.candidates] == [True, False]


def test_no_worker_has_the_model() -> None:
    choice = choose(busy("a"), requested="large")
    assert choice.worker is None
    assert "large" in choice.reason


def test_the_worker_of_the_conversation_is_remembered(owner: User) -> None:
    first, worker = make_waiting(owner), make_worker()
    take(first, worker)
    second = make_waiting(owner, conversation_id=str(first.conversation_id))
    assert routing.previous_worker(second) == "w1"
    assert routing.previous_worker(make_waiting(owner)) is None
