"""The table of workers: who is alive, what each has, how busy it is."""

from __future__ import annotations

import datetime
import os
import socket
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from django.db.models.functions import Now

from inference.messages import Ready
from webtrace.conversations.models import Response
from webtrace.dispatch.models import Worker

# Rows of workers long gone are deleted: the responses they made keep their names.
KEPT_FOR = datetime.timedelta(days=7)


@dataclass(frozen=True)
class Load:
    """How busy a worker is: responses running, responses taken and waiting for the engine, free cache blocks."""

    num_running: int = 0
    num_waiting: int = 0
    num_free_blocks: int = 0


def register(*, worker_id: str, ready: Ready, place: int = 0) -> Worker:
    """Enter this process as a worker whose engine is ready (again); `place` is that of its model in its operator's
    list."""
    columns: dict[str, Any] = {
        "host": socket.gethostname(),
        "process_id": os.getpid(),
        "region": settings.REGION,
        "model": ready.model["name"],
        "model_info": {**ready.model, "place": place},
        "fingerprint": ready.fingerprint,
        "device": ready.device,
        "kernel": ready.kernel,
        "num_blocks": ready.num_blocks,
        "num_free_blocks": ready.num_blocks,
        "seen_at": Now(),
        "stopped_at": None,
    }
    worker, _ = Worker.objects.update_or_create(pk=worker_id, defaults=columns)
    Worker.objects.filter(seen_at__lt=Now() - KEPT_FOR, jobs=None).delete()
    return worker


def renew(*, worker_id: str, load: Load) -> None:
    """Say that the worker is alive."""
    Worker.objects.filter(pk=worker_id).update(
        seen_at=Now(),
        num_running=load.num_running,
        num_waiting=load.num_waiting,
        num_free_blocks=load.num_free_blocks,
    )


def stop(*, worker_id: str) -> None:
    """Leave in good order: nothing more is handed to this worker, and what it held is free to be swept."""
    Worker.objects.filter(pk=worker_id).update(stopped_at=Now(), num_running=0, num_waiting=0)


def alive() -> QuerySet[Worker]:
    """Workers seen within their lease."""
    return Worker.objects.filter(stopped_at=None, seen_at__gte=Now() - datetime.timedelta(seconds=settings.LEASE_S))


def serves(model: str, requested: str) -> bool:
    """Whether a worker with this model can compute what was asked of that one."""
    return requested in ("auto", model)


def place_of(worker: Worker) -> int:
    """The place of its model in its operator's list: 0 is the preferred one."""
    return int(worker.model_info.get("place", 0))


def by_preference() -> list[Worker]:
    """The living workers, those of preferred models first, then the newest."""
    return sorted(alive().order_by("-started_at"), key=place_of)


def description(worker: Worker) -> dict[str, Any]:
    """Dimensions and name of its model, and what runs it."""
    return {
        **worker.model_info,
        "kernel": worker.kernel,
        "device": worker.device,
        "fingerprint": worker.fingerprint,
    }


def model_of(response: Response) -> dict[str, Any] | None:
    """What computed this response: from its worker's row, or one with the same fingerprint, while it is kept."""
    same = Worker.objects.filter(fingerprint=response.fingerprint).exclude(fingerprint="")
    worker = same.filter(pk=response.worker_id).first() or same.first()
    return description(worker) if worker else None


def stop_dead_neighbours() -> None:
    """Enter workers of this host whose process is gone as stopped, so that nobody waits for their leases to end."""
    for worker in Worker.objects.filter(stopped_at=None, host=socket.gethostname()):
        if not _is_alive(worker.process_id):
            stop(worker_id=worker.pk)


def _is_alive(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
