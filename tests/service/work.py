"""Short ways to make what workers handle: waiting responses, workers, engines that are ready."""

from __future__ import annotations

from uuid import UUID, uuid4

from inference.messages import Ready, Sampling
from webtrace.accounts.models import User
from webtrace.client_events import ResponseCreate
from webtrace.conversations import log, services
from webtrace.conversations.log import Line, Numbering
from webtrace.conversations.models import Response
from webtrace.dispatch import jobs, workers
from webtrace.dispatch.models import Worker
from webtrace.events import ResponseCreated, TextDelta
from webtrace.reporting import service_summaries

MODEL = {
    "name": "tiny", "architecture": "llama", "n_layers": 2, "n_heads": 2, "n_kv_heads": 1, "head_width": 4, "width": 8,
    "feed_forward_width": 16, "vocabulary": 49152, "context_length": 8192, "num_parameters": 0,
    "score_divisor": 2.0, "windows": [None, None], "rotates": [True, True],
}  # fmt: skip


def ready(**fields: object) -> Ready:
    values = {
        "fingerprint": "tiny/1", "model": MODEL, "device": "cpu", "kernel": "float32", "threads": 1,
        "num_blocks": 64, "block_size": 64, "cut": 128, "safety": None,
    }  # fmt: skip
    return Ready(**{**values, **fields})  # type: ignore[arg-type]


def make_worker(worker_id: str = "w1", place: int = 0, **fields: object) -> Worker:
    return workers.register(worker_id=worker_id, ready=ready(**fields), place=place)


def make_waiting(owner: User, text: str = "Tell me one", **message: object) -> Response:
    """A response in the queue, with the first event of its log."""
    created, _ = services.start_response(
        owner=owner,
        message=ResponseCreate(event_id=uuid4().hex, input=text, **message),  # type: ignore[arg-type]
        sampling=Sampling(seed=1),
        transport="websocket",
    )
    line = Numbering(created.pk, log.START).line(
        ResponseCreated, **service_summaries.created(created, Sampling(seed=1))
    )
    log.append([log.Write(created.pk, 0, [line])])
    jobs.enqueue(created, asked_from="192.0.2.1")
    return created


def take(response: Response, worker: Worker) -> jobs.Taken:
    taken = jobs.take(response_id=response.pk, worker=worker)
    assert taken is not None
    return taken


def deltas(numbering: Numbering, *texts: str) -> list[Line]:
    return [numbering.line(TextDelta, delta=text) for text in texts]


def numbering(response_id: UUID, epoch: int, number: int) -> Numbering:
    return Numbering(response_id, log.Place(epoch, number))
