"""Stage 5: which worker computes a response. Every criterion's value is shown, whoever wins."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings

from webtrace.conversations.models import Response
from webtrace.dispatch.models import Worker
from webtrace.dispatch.workers import place_of, serves
from webtrace.reporting.service_reports import WorkerChoice

# A worker that has this conversation's earlier turns in its cache may be this many responses busier and still win.
PREFIX_BONUS = 2


@dataclass(frozen=True)
class Choice:
    """`worker` is the one to compute it, null when none can; `candidates` show why."""

    worker: Worker | None
    candidates: list[WorkerChoice]
    reason: str


def previous_worker(response: Response) -> str | None:
    """The worker that made the conversation's answer before this one: its cache may hold the prefix."""
    if response.conversation_id is None:
        return None
    earlier = Response.objects.filter(conversation=response.conversation_id).exclude(pk=response.pk)
    return earlier.exclude(worker_id="").order_by("-created_at").values_list("worker_id", flat=True).first()


def choose(
    *, workers: Iterable[Worker], requested: str, previous: str | None, now: datetime, impatient: str | None = None
) -> Choice:
    """The least busy living worker that has the model; an equal region and a warm prefix count for it.

    Who asks for `auto` gets the model that stands first in its operator's list.

    `impatient` names a worker that takes the job whoever is best, because it has waited too long already.
    """
    everyone = list(workers)
    able = [worker for worker in everyone if serves(worker.model, requested)]
    best = min(able, key=lambda worker: _rank(worker, previous), default=None)
    why = ""
    if best is not None and impatient is not None and best.pk != impatient:
        own = next((worker for worker in able if worker.pk == impatient), None)
        best, why = (own, ", and the job had waited too long for a better one") if own else (best, "")
    candidates = [_row(worker, best, requested, previous, now) for worker in everyone]
    if best is None:
        return Choice(None, candidates, f"no living worker has the model {requested!r}")
    chosen = next(row for row in candidates if row.chosen)
    return Choice(best, candidates, f"{chosen.name}: {chosen.reason}{why}")


def _rank(worker: Worker, previous: str | None) -> tuple[bool, int, int, int, str]:
    busy = worker.num_running + worker.num_waiting - (PREFIX_BONUS if worker.pk == previous else 0)
    return worker.region != settings.REGION, place_of(worker), busy, -worker.num_free_blocks, worker.pk


def _row(worker: Worker, best: Worker | None, requested: str, previous: str | None, now: datetime) -> WorkerChoice:
    if not serves(worker.model, requested):
        reason = f"has {worker.model}, not {requested}"
    else:
        busy = worker.num_running + worker.num_waiting
        reason = f"responses before this one: {busy}; free blocks: {worker.num_free_blocks}"
        if place_of(worker):
            reason += f", model number {place_of(worker) + 1} of its list"
        if worker.region != settings.REGION:
            reason += f", other region than {settings.REGION}"
        if worker.pk == previous:
            reason += f", made this conversation's last answer (counts as {PREFIX_BONUS} responses fewer)"
    return WorkerChoice(
        worker_id=worker.pk,
        name=worker.name,
        model=worker.model,
        kernel=worker.kernel,
        device=worker.device,
        region=worker.region,
        num_free_blocks=worker.num_free_blocks,
        num_running=worker.num_running,
        num_waiting=worker.num_waiting,
        last_seen_s=max(0.0, round((now - worker.seen_at).total_seconds(), 3)),
        chosen=best is not None and worker.pk == best.pk,
        reason=reason,
    )
