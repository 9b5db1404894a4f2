"""Holds that are refused or passed by."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from django.db import OperationalError

from tests.service.cast import make_user, principal
from tests.service.test_worker_parts import Database, database, hub, recording, until
from tests.service.work import make_waiting, make_worker
from webtrace.accounts.models import User
from webtrace.breakpoints import Breakpoints, after_stage
from webtrace.client_events import ResponseCreate, StepPoint
from webtrace.dispatch import holds
from webtrace.gateway.checks import run_checks
from webtrace.gateway.incoming import Incoming
from webtrace.reporting.timing import Stages
from webtrace.running.holds import Holds

__all__ = ["database", "hub"]  # fixtures


def test_no_more_of_one_user_s_responses_pause_than_may(owner: User, stranger: User, settings: Any) -> None:
    settings.HELD_AT_ONCE = 2
    make_worker()
    for points in ([], ["softmax"], [StepPoint(2)]):
        make_waiting(owner, breakpoints=points)

    def refusal(user: User, *points: str) -> str | None:
        message = ResponseCreate("e", "Tell me one", breakpoints=list(points))
        verdict = run_checks(Incoming(message, "websocket", "{}", (), False), principal(user))
        return verdict.error.code if verdict.error else None

    assert (refusal(owner, "gateway"), refusal(owner), refusal(stranger, "gateway")) == ("too_many_held", None, None)


def test_however_many_guests_an_address_has_its_responses_pause_only_so_often(
    owner: User, guest: User, settings: Any
) -> None:
    settings.HELD_AT_ONCE_PER_ADDRESS = 2
    make_worker()
    for user in (owner, guest):
        make_waiting(user, breakpoints=["softmax"])  # from 192.0.2.1
    one_more = make_user("one-more")

    def refusal(address: str) -> str | None:
        message = ResponseCreate("e", "Tell me one", breakpoints=["softmax"])
        verdict = run_checks(Incoming(message, "websocket", "{}", (), False), principal(one_more, address))
        return verdict.error.code if verdict.error else None

    assert (refusal("192.0.2.1"), refusal("192.0.2.2")) == ("too_many_held", None)


@pytest.mark.django_db(transaction=True)  # its thread looks after connections that other tests left
async def test_without_a_database_a_breakpoint_is_passed_by(
    monkeypatch: pytest.MonkeyPatch, database: Database, hub: Any
) -> None:
    def full(**_: Any) -> None:
        raise OperationalError("database or disk is full")

    monkeypatch.setattr(holds, "enter", full)
    async with recording() as (_, one):
        stages = Stages(time.perf_counter(), "worker", lambda fields: None)
        waiting = Holds(Breakpoints([after_stage("prompt")]), one, stages)
        await asyncio.wait_for(waiting.after("prompt"), 10)
        assert not waiting.is_held
        await until(lambda: len(hub()) == 1)
    assert [line.type for line in hub()] == ["response.in_progress"]
