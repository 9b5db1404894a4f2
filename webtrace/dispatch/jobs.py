"""Jobs: queued, taken, watched, cancelled, ended. Whoever changes one holds the lock of its response's row."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import cast
from uuid import UUID

import msgspec
from django.db import transaction
from django.db.models.functions import Now

from inference.messages import Sampling
from webtrace.conversations import endings, log, services
from webtrace.conversations.endings import Ending
from webtrace.conversations.models import Response
from webtrace.dispatch.models import Job, Worker
from webtrace.events import FinishReason, ResponseInProgress, ResponseQueued, Usage

logger = logging.getLogger(__name__)

MOST_MOVED = 50  # whose new position is told in one sweep


@dataclass(frozen=True)
class Told:
    """What this process has written into a response's log, with the lines that watchers must still get."""

    response_id: UUID
    lines: Sequence[log.Line]


@dataclass(frozen=True)
class Taken:
    """A job that is now ours to compute. `lines` opens its epoch in the log and must still be published."""

    response: Response
    epoch: int
    queue_ms: float
    lines: Sequence[log.Line]


def enqueue(response: Response, *, asked_from: str) -> int:
    """Put a new response in the queue, asked for from this address group. Returns how many wait before it. Call in the
    transaction that made it."""
    position = Job.objects.filter(worker=None).count()
    Job.objects.create(response=response, position=position, asked_from=asked_from)
    return position


def moved() -> dict[UUID, int]:
    """Waiting jobs that no longer stand where their watchers were told, with how many are before them now. The first
    MOST_MOVED of them: the nearer one's turn, the more it matters."""
    waiting = Job.objects.filter(worker=None).order_by("created_at", "pk").values_list("pk", "position")[:1000]
    changed = {pk: place for place, (pk, told) in enumerate(waiting) if place != told}
    return dict(list(changed.items())[:MOST_MOVED])


@transaction.atomic
def tell_positions(places: Mapping[UUID, int]) -> list[Told]:
    """Log where these jobs stand now, for those that still wait."""
    waiting = Response.objects.select_for_update().filter(pk__in=places, status=Response.Status.QUEUED).order_by("pk")
    told = []
    for response in waiting:
        if (
            not Job.objects.filter(pk=response.pk, worker=None)
            .exclude(position=places[response.pk])
            .update(position=places[response.pk])
        ):
            continue  # another process has told it meanwhile
        place = log.Place(response.epoch, log.last_number(response.pk, response.epoch) + 1)
        line = log.line(response.pk, place, ResponseQueued, position=places[response.pk])
        log.append([log.Write(response.pk, response.epoch, [line])])
        told.append(Told(response.pk, [line]))
    return told


@transaction.atomic
def take(*, response_id: UUID, worker: Worker) -> Taken | None:
    """Take this job, unless somebody else has or it has ended. The epoch begins, with its first event."""
    response = Response.objects.select_for_update().filter(pk=response_id).first()
    job = Job.objects.filter(response=response_id, worker=None).first()
    if response is None or job is None:
        return None
    Job.objects.filter(pk=response_id).update(worker=worker, taken_at=Now())
    job.refresh_from_db()
    assert job.taken_at is not None
    response.epoch += 1
    response.status = Response.Status.IN_PROGRESS
    response.worker_id, response.model, response.fingerprint = worker.pk, worker.model, worker.fingerprint
    response.taken_at = job.taken_at
    response.queue_ms = max(0.0, (job.taken_at - job.created_at).total_seconds() * 1000)
    response.save(update_fields=("epoch", "status", "worker_id", "model", "fingerprint", "taken_at", "queue_ms"))
    services.settle_sampling(response=response, stated=worker.model_info.get("sampling", {}))
    lines = [
        log.line(
            response_id,
            log.Place(response.epoch, 1),
            ResponseInProgress,
            worker_id=worker.pk,
            model=worker.model,
            fingerprint=worker.fingerprint,
            sampling=msgspec.convert(response.sampling, Sampling, str_keys=True),
        )
    ]
    log.append([log.Write(response_id, response.epoch, lines)])
    logger.info("Response %s: taken by worker %s after %.0f ms.", response_id, worker.pk, response.queue_ms)
    return Taken(response, response.epoch, response.queue_ms, lines)


def waiting(*, limit: int, waited_s: float = 0.0) -> list[UUID]:
    """The jobs nobody has taken for at least so long, oldest first."""
    before = Now() - datetime.timedelta(seconds=waited_s)
    found = Job.objects.filter(worker=None, created_at__lte=before).order_by("created_at")
    return list(found.values_list("pk", flat=True)[:limit])


def watch(*, response_ids: Collection[UUID]) -> None:
    """Somebody is watching these responses now."""
    Job.objects.filter(pk__in=response_ids).update(watched_at=Now())


@dataclass(frozen=True)
class CancelResult:
    """`ended` when it was still queued and ends here; `worker_id` when a worker has to be rung."""

    ended: Told | None = None
    worker_id: str | None = None


@transaction.atomic
def cancel(*, response_id: UUID, reason: FinishReason = "cancelled") -> CancelResult:
    """Ask for the end of a response: at once if it is still queued, else by its worker. Ended ones stay as they are."""
    response = Response.objects.select_for_update().filter(pk=response_id).first()
    job = Job.objects.filter(pk=response_id).first()
    if response is None or job is None:
        return CancelResult()
    if job.worker_id is None:
        return CancelResult(ended=_end(response, response.epoch, Ending(reason, response.text)))
    if not job.cancel_requested:
        Job.objects.filter(pk=response_id).update(cancel_requested=reason)
    return CancelResult(worker_id=job.worker_id)


def taken_by(*, worker_id: str) -> list[UUID]:
    """The responses that a worker computes, as far as the database knows."""
    return list(Job.objects.filter(worker=worker_id).values_list("pk", flat=True))


def cancels_of(*, worker_id: str) -> dict[UUID, FinishReason]:
    """The cancels that stand for a worker's jobs, with the finish reason asked for."""
    asked = Job.objects.filter(worker=worker_id).exclude(cancel_requested="")
    return {pk: cast(FinishReason, reason) for pk, reason in asked.values_list("pk", "cancel_requested")}


@transaction.atomic
def interrupt(*, response_id: UUID, worker_id: str) -> Told | None:
    """End a response whose worker is gone, in a new epoch, with the text that was logged.

    The event names the last number that counts of the epoch before. Null: it has ended or is another worker's.
    """
    response = Response.objects.select_for_update().filter(pk=response_id).first()
    if response is None or not Job.objects.filter(pk=response_id, worker=worker_id).exists():
        return None
    last = log.last_number(response_id, response.epoch)
    response.epoch += 1
    response.save(update_fields=("epoch",))
    return _end(response, response.epoch, Ending("worker_lost", response.text), last=last)


@transaction.atomic
def end(*, response_id: UUID, epoch: int, lines: Sequence[log.Line], ending: Ending) -> bool:
    """Write a response's last lines and its end, and drop its job. False: the epoch was no longer ours."""
    if not endings.end_response(response_id=response_id, epoch=epoch, lines=lines, ending=ending):
        return False
    Job.objects.filter(pk=response_id).delete()
    return True


def _end(response: Response, epoch: int, ending: Ending, *, last: int = 0) -> Told:
    """End a response whose row is locked, with one line after what is logged."""
    ending = Ending(
        ending.finish_reason,
        ending.text,
        Usage(response.num_prompt_tokens, response.num_answer_tokens, response.num_prefix_tokens),
    )
    place = log.Place(epoch, log.last_number(response.pk, epoch) + 1)
    lines = [endings.end_line(response_id=response.pk, place=place, ending=ending, last=last)]
    if not end(response_id=response.pk, epoch=epoch, lines=lines, ending=ending):
        raise RuntimeError(f"Response {response.pk} ended although its row was locked.")
    return Told(response.pk, lines)
