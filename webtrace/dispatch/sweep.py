"""The sweep: once a second every web process and worker writes the ends nobody else will, and rings what was missed."""

from __future__ import annotations

import asyncio
import datetime
import logging
from dataclasses import dataclass, field
from uuid import UUID

from channels.db import database_sync_to_async
from django.conf import settings
from django.db.models import Q
from django.db.models.functions import Now

from webtrace.conversations import live
from webtrace.dispatch import bell, jobs
from webtrace.dispatch.models import Job

logger = logging.getLogger(__name__)

INTERVAL_S = 1.0
RING_AGAIN_AFTER = datetime.timedelta(seconds=2)
MOST_RUNG = 20  # jobs rung again in one sweep


@dataclass
class Found:
    """What a sweep did in the database and what must now be told."""

    ended: list[jobs.Ended] = field(default_factory=list)
    cancels: list[tuple[UUID, str]] = field(default_factory=list)  # response, its worker
    rings: list[UUID] = field(default_factory=list)


def sweep() -> Found:
    """One pass. Plain reads first; only what is found is locked and written, so an idle sweep costs no lock."""
    found = Found()
    lease = datetime.timedelta(seconds=settings.LEASE_S)
    lost = Q(worker__seen_at__lt=Now() - lease) | Q(worker__stopped_at__isnull=False)
    for response_id, worker_id in list(Job.objects.filter(lost).values_list("pk", "worker")):
        if ended := jobs.interrupt(response_id=response_id, worker_id=str(worker_id)):
            logger.warning("Worker %s is lost: response %s ends interrupted.", worker_id, response_id)
            found.ended.append(ended)
    grace = datetime.timedelta(seconds=settings.UNWATCHED_GRACE_S)
    unwatched = Job.objects.filter(watched_at__lt=Now() - grace, cancel_requested="")
    for response_id in list(unwatched.values_list("pk", flat=True)):
        result = jobs.cancel(response_id=response_id, reason="disconnected")
        if result.ended:
            found.ended.append(result.ended)
        if result.worker_id:
            found.cancels.append((response_id, result.worker_id))
    missed = Job.objects.filter(worker=None, created_at__lt=Now() - RING_AGAIN_AFTER).order_by("created_at")
    found.rings += missed.values_list("pk", flat=True)[:MOST_RUNG]
    return found


async def sweep_and_tell() -> None:
    """One pass, and the messages that follow from it."""
    found = await database_sync_to_async(sweep)()
    await live.publish((ended.response_id, ended.lines) for ended in found.ended)
    for response_id, worker_id in found.cancels:
        await bell.ring_cancel(response_id, worker_id=worker_id)
    for response_id in found.rings:
        await bell.ring_job(response_id)


async def sweep_forever() -> None:
    """The loop of every process. A failing database is reported and tried again."""
    while True:
        try:
            await sweep_and_tell()
        except Exception:
            logger.exception("The sweep failed; it runs again in a second.")
        await asyncio.sleep(INTERVAL_S)
