"""Responses held at a breakpoint: their worker enters and leaves a hold, any process asks it to go on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import msgspec
from channels.db import database_sync_to_async
from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from webtrace.accounts.models import User
from webtrace.breakpoints import Station, after_stage, from_json, parse
from webtrace.client_events import Breakpoint
from webtrace.conversations.models import Response
from webtrace.dispatch import bell
from webtrace.dispatch.models import Job


class NotHeld(ValueError):
    """The response is not held, or has been asked to go on already."""


class Passed(ValueError):
    """The place to hold next lies behind; the message names both places."""


@dataclass(frozen=True)
class Asked:
    """Somebody asks a response to go on from this place. `breakpoints` are those that it now has; null: as before."""

    response_id: UUID
    station: Station
    until: Breakpoint
    breakpoints: list[Station] | None = None


def enter(*, response_id: UUID, stage: str, step: int | None) -> None:
    """The response is held here from now on."""
    Job.objects.filter(pk=response_id).update(held_stage=stage, held_step=step, held_at=Now(), continue_until=None)


def leave(*, response_id: UUID) -> None:
    """It goes on."""
    Job.objects.filter(pk=response_id).update(held_stage="", held_step=None, held_at=None, continue_until=None)


def asked_of(*, worker_id: str) -> list[Asked]:
    """What a worker's held responses are asked for."""
    rows = Job.objects.filter(worker=worker_id, continue_until__isnull=False).exclude(held_stage="")
    return [
        Asked(
            row.pk, _station(row), _until(row.continue_until),
            None if row.breakpoints is None else from_json(row.breakpoints),
        )
        for row in rows
    ]  # fmt: skip


@transaction.atomic
def ask(*, response_id: UUID, until: Breakpoint, breakpoints: Sequence[Breakpoint] | None = None) -> str:
    """Ask a held response to go on, with these breakpoints instead of those it has, if any are given. Returns the
    worker to be rung. Raises NotHeld, Passed."""
    Response.objects.select_for_update().filter(pk=response_id).first()
    job = Job.objects.filter(pk=response_id).exclude(held_stage="").first()
    if job is None or job.continue_until is not None or job.worker_id is None:
        raise NotHeld("This response is not held.")
    if until not in ("next", "end") and parse(until) <= _station(job):
        raise Passed(f"lies behind: the response is held at {_station(job)}.")
    job.continue_until = msgspec.to_builtins(until)
    if breakpoints is not None:
        job.breakpoints = msgspec.to_builtins(breakpoints)
    if until not in ("next", "end"):
        points = job.response.request["breakpoints"] if job.breakpoints is None else job.breakpoints
        job.breakpoints = points if job.continue_until in points else [*points, job.continue_until]
    job.save(update_fields=("continue_until", "breakpoints"))
    return str(job.worker_id)


def breakpoints_of(response: Response) -> list[Any]:
    """Where it is held, as JSON: the request's own breakpoints, or those that a client has put in their place since."""
    job = Job.objects.filter(pk=response.pk).first()
    own: list[Any] = response.request["breakpoints"]
    return own if job is None or job.breakpoints is None else job.breakpoints


async def continue_response(
    response_id: UUID, until: Breakpoint, breakpoints: Sequence[Breakpoint] | None = None
) -> None:
    """In the database first, then by a ring to its worker. Raises NotHeld, Passed."""
    worker_id = await database_sync_to_async(ask)(response_id=response_id, until=until, breakpoints=breakpoints)
    await bell.ring_continue(response_id, worker_id=worker_id)


def num_pausing_of(owner: User) -> int:
    """The owner's active responses that have breakpoints."""
    return _pausing().filter(response__owner=owner).count()


def num_pausing_from(address_group: str) -> int:
    """Active responses that have breakpoints, whosever they are, asked for from this address group."""
    return _pausing().filter(asked_from=address_group).count()


def _pausing() -> QuerySet[Job]:
    return Job.objects.exclude(response__request__breakpoints=[])


def held_place(response_id: UUID) -> dict[str, Any] | None:
    """Where a response is held and for how long yet; null when it is not."""
    job = Job.objects.filter(pk=response_id).exclude(held_stage="").annotate(now=Now()).first()
    if job is None or job.held_at is None:
        return None
    left = settings.HOLD_S - (job.now - job.held_at).total_seconds()
    return {"stage": job.held_stage, "step": job.held_step, "releases_in_s": max(0.0, left)}


def _station(job: Job) -> Station:
    return after_stage(job.held_stage, job.held_step)


def _until(stored: Any) -> Breakpoint:
    until: Breakpoint = msgspec.convert(stored, Breakpoint)
    return until
