"""How a response ends: in its log, in its record and as the answer of its conversation."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models.functions import Now

from webtrace.conversations import log
from webtrace.conversations.log import storable
from webtrace.conversations.models import Message, Response
from webtrace.events import (
    ErrorBody,
    FinishReason,
    ResponseCancelled,
    ResponseCompleted,
    ResponseEnd,
    ResponseFailed,
    ResponseIncomplete,
    ResponseInterrupted,
    Usage,
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Ending:
    """How a response ends. `text` is the whole released answer; `record` holds further columns of the response."""

    finish_reason: FinishReason
    text: str
    usage: Usage = field(default_factory=Usage)
    error: ErrorBody | None = None
    record: dict[str, Any] = field(default_factory=dict)
    held_ms: float = 0.0  # time held at breakpoints: no part of the latency


_ENDS: dict[str, tuple[type[ResponseEnd], Response.Status]] = {
    "stop": (ResponseCompleted, Response.Status.COMPLETED),
    "refusal": (ResponseCompleted, Response.Status.COMPLETED),
    "length": (ResponseIncomplete, Response.Status.INCOMPLETE),
    "content_filter": (ResponseIncomplete, Response.Status.INCOMPLETE),
    "cancelled": (ResponseCancelled, Response.Status.CANCELLED),
    "disconnected": (ResponseCancelled, Response.Status.CANCELLED),
    "error": (ResponseFailed, Response.Status.FAILED),
    "refused": (ResponseFailed, Response.Status.FAILED),
    "worker_lost": (ResponseInterrupted, Response.Status.INTERRUPTED),
}


def end_line(*, response_id: UUID, place: log.Place, ending: Ending, last: int = 0) -> log.Line:
    """The end event at its place; `last` is the interrupted epoch's last number that counts."""
    kind, _ = _ENDS[ending.finish_reason]
    more = {"last_sequence_number": last} if kind is ResponseInterrupted else {}
    return log.line(
        response_id,
        place,
        kind,
        finish_reason=ending.finish_reason,
        text=ending.text,
        usage=ending.usage,
        error=ending.error,
        **more,
    )


@transaction.atomic
def end_response(*, response_id: UUID, epoch: int, lines: Sequence[log.Line], ending: Ending) -> bool:
    """Write the last lines, the record and the answer, and compact the log. False: the epoch was no longer ours."""
    written = log.append([log.Write(response_id, epoch, lines)])
    if not written:
        return False
    _, status = _ENDS[ending.finish_reason]
    error = ending.error or ErrorBody("", "")
    responses = Response.objects.filter(pk=response_id)
    responses.update(
        status=status,
        finish_reason=ending.finish_reason,
        text=storable(ending.text),
        error_code=error.code,
        error_message=storable(error.message),
        num_prompt_tokens=ending.usage.input_tokens,
        num_answer_tokens=ending.usage.output_tokens,
        num_prefix_tokens=ending.usage.cached_tokens,
        ended_at=Now(),
        **ending.record,
    )
    response = responses.get()
    assert response.ended_at is not None
    whole_ms = (response.ended_at - response.created_at).total_seconds() * 1000
    response.end_to_end_ms = max(0.0, whole_ms - ending.held_ms)
    if ending.held_ms:
        response.resources["held_ms"] = ending.held_ms
    response.save(update_fields=("end_to_end_ms", "resources"))
    if response.answer_id is not None:
        Message.objects.filter(pk=response.answer_id).update(content=storable(ending.text))
    num_bytes = log.compact(response_id)
    logger.info(
        "Response %s: %s (%s) after %.0f ms; %d tokens read, %d written; %d bytes of events stored.",
        response_id,
        status,
        error.code or ending.finish_reason,
        response.end_to_end_ms,
        ending.usage.input_tokens,
        ending.usage.output_tokens,
        num_bytes,
    )
    return True
