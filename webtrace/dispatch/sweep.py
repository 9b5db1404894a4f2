"""The sweep: once a second every web process and worker writes the ends nobody else will, and rings what was missed."""

from __future__ import annotations

import asyncio
import datetime
import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from channels.db import database_sync_to_async
from django.conf import settings
from django.db import OperationalError, transaction
from django.db.models import Q
from django.db.models.functions import Now

from webtrace.conversations import live
from webtrace.dispatch import bell, jobs
from webtrace.dispatch.models import Job

logger = logging.getLogger(__name__)

INTERVAL_S = 1.0
RING_AGAIN_AFTER = datetime.timedelta(seconds=2)
STALLED_S = 0.25
MOST_RUNG = 20  # jobs rung again in one sweep


@dataclass
class Found:
    """What a sweep did in the database and what must now be told."""

    ended: list[jobs.Told] = field(default_factory=list)
    moved: list[jobs.Told] = field(default_factory=list)  # in the queue
    cancels: list[tuple[UUID, str]] = field(default_factory=list)  # response, its worker
    rings: list[UUID] = field(default_factory=list)


class _Stall:
    """Whether this process could work and the database let it write. Where not, nobody's lease or watch could be
    renewed either, and their age proves nothing until there was time to renew them."""

    def __init__(self) -> None:
        self._last_pass: float | None = None
        self._noticed: float | None = None

    def begin_pass(self) -> None:
        """A pass that comes late was kept waiting by something."""
        now = time.monotonic()
        if self._last_pass is not None and now - self._last_pass > settings.LEASE_S / 2:
            self.notice()
        self._last_pass = now

    def is_over(self) -> bool:
        """Try how long a write waits, and whether the last long wait was longer ago than a lease."""
        if seconds_to_write() > STALLED_S:
            self.notice()
        return self._noticed is None or time.monotonic() - self._noticed > settings.LEASE_S

    def notice(self) -> None:
        self._noticed = time.monotonic()
        logger.warning("Nothing could be written for a while; leases and watches are judged later.")


_stall = _Stall()


def seconds_to_write() -> float:
    """How long it takes to get the right to write (in SQLite, which has one writer at a time)."""
    asked = time.monotonic()
    with transaction.atomic():
        pass
    return time.monotonic() - asked


def sweep() -> Found:
    """One pass. Plain reads first; only what is found is locked and written, so an idle sweep costs no lock."""
    found = Found()
    _stall.begin_pass()
    lease = datetime.timedelta(seconds=settings.LEASE_S)
    grace = datetime.timedelta(seconds=settings.UNWATCHED_GRACE_S)
    silent, stopped = Q(worker__seen_at__lt=Now() - lease), Q(worker__stopped_at__isnull=False)
    lost = list(Job.objects.filter(silent | stopped).values_list("pk", "worker", "worker__stopped_at"))
    unwatched = Job.objects.filter(watched_at__lt=Now() - grace, cancel_requested="")
    forgotten = list(unwatched.values_list("pk", flat=True))
    if (lost or forgotten) and not _stall.is_over():
        lost, forgotten = [row for row in lost if row[2] is not None], []
    try:
        _write_ends(found, lost, forgotten)
        if places := jobs.moved():
            found.moved += jobs.tell_positions(places)
    except OperationalError:  # no room, most often: no lease could be renewed either
        _stall.notice()
        raise
    missed = Job.objects.filter(worker=None, created_at__lt=Now() - RING_AGAIN_AFTER).order_by("created_at")
    found.rings += missed.values_list("pk", flat=True)[:MOST_RUNG]
    return found


def _write_ends(found: Found, lost: Iterable[tuple[UUID, str, object]], forgotten: Iterable[UUID]) -> None:
    for response_id, worker_id, _ in lost:
        if ended := jobs.interrupt(response_id=response_id, worker_id=str(worker_id)):
            logger.warning("Worker %s is lost: response %s ends interrupted.", worker_id, response_id)
            found.ended.append(ended)
    for response_id in forgotten:
        result = jobs.cancel(response_id=response_id, reason="disconnected")
        if result.ended:
            found.ended.append(result.ended)
        if result.worker_id:
            found.cancels.append((response_id, result.worker_id))


async def sweep_and_tell() -> None:
    """One pass, and the messages that follow from it."""
    found = await database_sync_to_async(sweep)()
    await live.publish((told.response_id, told.lines) for told in (*found.ended, *found.moved))
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
