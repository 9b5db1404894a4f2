"""What a worker is said to compute and does not: a response whose end could not be written still gets one."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import sync_to_async

from tests.service.cast import make_user
from tests.service.test_prompt import tokenizer
from tests.service.work import make_waiting, make_worker, take
from webtrace.conversations.models import Response
from webtrace.dispatch.models import Job
from webtrace.running.stop import Stop
from webtrace.worker.runner import Runner


async def no_engine() -> Any:
    raise AssertionError("No engine is needed.")


@pytest.mark.django_db(transaction=True)
async def test_a_worker_interrupts_what_it_left_without_an_end() -> None:
    runner = Runner(no_engine, tokenizer())

    def prepare() -> tuple[Response, Response, Response]:
        owner, own, other = make_user("owner"), make_worker(runner.worker_id), make_worker("other")
        left, computed, elsewhere = (make_waiting(owner) for _ in range(3))
        for response, worker in ((left, own), (computed, own), (elsewhere, other)):
            take(response, worker)
        return left, computed, elsewhere

    def active() -> set[Any]:
        return set(Job.objects.values_list("pk", flat=True))

    left, computed, elsewhere = await sync_to_async(prepare)()
    runner._stops[computed.pk] = Stop()
    await runner._look_for_leftovers()
    assert await sync_to_async(active)() == {computed.pk, elsewhere.pk}
    await left.arefresh_from_db()
    assert (left.status, left.finish_reason, left.epoch) == ("interrupted", "worker_lost", 2)
    await runner.stop()
