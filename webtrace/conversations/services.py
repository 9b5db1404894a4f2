"""Writes: one function for each thing that can happen to a conversation or a response."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import msgspec
from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone

from inference.messages import Sampling
from webtrace.accounts.models import User
from webtrace.conversations import branching, log, selectors
from webtrace.conversations.log import storable
from webtrace.conversations.models import Conversation, Feedback, Message, Response, Share
from webtrace.events import (
    ErrorBody,
    FinishReason,
    InputMessage,
    ResponseCancelled,
    ResponseCompleted,
    ResponseCreate,
    ResponseEnd,
    ResponseFailed,
    ResponseIncomplete,
    ResponseInterrupted,
    Usage,
)

logger = logging.getLogger(__name__)

TITLE_CHARACTERS = 80
ROOT = "root"  # as `parent_id`: a new first turn, beside the conversation's present one


class EventIdReused(ValueError):
    """The same `event_id` came with another body within a day."""


class NotShareable(ValueError):
    """There is nothing yet, or nothing at all, that others may see of this response."""


class UnknownParent(ValueError):
    """`parent_id` names no message of the conversation."""


def inputs(message: ResponseCreate) -> list[InputMessage]:
    """The request's input as messages."""
    return [InputMessage("user", message.input)] if isinstance(message.input, str) else message.input


def digest(message: ResponseCreate) -> str:
    """What two requests with the same `event_id` must agree in."""
    plain = msgspec.to_builtins(message, str_keys=True)
    return hashlib.sha256(msgspec.json.encode(plain, order="deterministic")).hexdigest()


def repeated_response(*, owner: User, message: ResponseCreate) -> Response | None:
    """The response that the same request has already made within a day. Raises EventIdReused."""
    earlier = selectors.repeated(owner=owner, event_id=message.event_id, now=timezone.now())
    if earlier is not None and earlier.body_digest != digest(message):
        raise EventIdReused(f"event_id {message.event_id!r} was used for another request within a day.")
    return earlier


@transaction.atomic
def start_response(
    *,
    owner: User,
    message: ResponseCreate,
    sampling: Sampling,
    transport: str,
    keep: bool = True,
    refused: bool = False,
) -> tuple[Response, bool]:
    """A response for this request, with its conversation and messages, and whether it is new.

    The same `event_id` with the same body gives the same response again; with another body it raises EventIdReused.
    A refused request leaves the conversation as it is. Raises Conversation.DoesNotExist, UnknownParent, CannotBranch.
    """
    # One request of an owner at a time, so that a repeated event_id meets its first.
    User.objects.select_for_update().get(pk=owner.pk)
    if earlier := repeated_response(owner=owner, message=message):
        return earlier, False
    response = Response(
        owner=owner,
        event_id=message.event_id,
        body_digest=digest(message),
        transport=transport,
        requested_model=message.model,
        sampling=msgspec.to_builtins(sampling, str_keys=True),
        request=_request(message),
        trace=message.trace,
    )
    if refused:
        response.conversation = _conversation_if_own(owner, message.conversation_id)
    elif (original := branching.original(owner=owner, message=message)) is not None:
        _add_version(response, original, message)
    elif keep:
        _add_turn(response, owner, message)
    response.save(force_insert=True)
    return response, True


def _request(message: ResponseCreate) -> dict[str, Any]:
    """What the worker needs of the request, as JSON."""
    return {
        "input": [{"role": one.role, "content": storable(one.content)} for one in inputs(message)],
        "instructions": storable(message.instructions or ""),
        "retrieval": message.retrieval,
        "breakpoints": msgspec.to_builtins(message.breakpoints),
        "parent_id": None,
    }


def _conversation_if_own(owner: User, conversation_id: str | None) -> Conversation | None:
    try:
        found = Conversation.objects.filter(owner=owner, pk=UUID(conversation_id or ""))
    except ValueError:
        return None
    return found.first()


def _add_turn(response: Response, owner: User, message: ResponseCreate) -> None:
    """Store the request's messages and an empty answer under them, in a conversation of the owner."""
    given = inputs(message)
    if message.conversation_id is None:
        title = next((one.content for one in given if one.role == "user"), "").strip().split("\n")[0]
        conversation = Conversation.objects.create(
            owner=owner, title=storable(title[:TITLE_CHARACTERS]), instructions=storable(message.instructions or "")
        )
    else:
        conversation = selectors.conversation(owner=owner, conversation_id=UUID(message.conversation_id))
    _keep_sampling(conversation, response, message)
    parent = _parent(conversation, message.parent_id)
    response.request["parent_id"] = str(parent.pk) if parent else None
    for one in given:
        parent = Message.objects.create(
            conversation=conversation, parent=parent, role=one.role, content=storable(one.content)
        )
    response.conversation = conversation
    response.user_message = parent
    response.answer = Message.objects.create(conversation=conversation, parent=parent, role=Message.Role.ASSISTANT)


def _keep_sampling(conversation: Conversation, response: Response, message: ResponseCreate) -> None:
    """The conversation goes on with these settings; a seed that was drawn is none of them."""
    conversation.sampling = {**response.sampling, "seed": message.sampling.seed}
    conversation.save(update_fields=("sampling", "updated_at"))


def _add_version(response: Response, original: Response, message: ResponseCreate) -> None:
    """Store an empty answer beside an earlier one, to the same messages with the same instructions."""
    own = response.request
    response.request = {**original.request, "branch": None, "breakpoints": own["breakpoints"]}
    if message.branch is not None:
        response.request["branch"] = {**msgspec.to_builtins(message.branch), "response_id": str(original.pk)}
        response.requested_model = original.model
    elif message.instructions is not None:
        response.request["instructions"] = own["instructions"]
    response.user_message = original.user_message
    response.conversation = original.conversation
    if original.conversation is not None:
        if message.branch is None:
            _keep_sampling(original.conversation, response, message)
        else:
            original.conversation.save(update_fields=("updated_at",))
        response.answer = Message.objects.create(
            conversation=original.conversation, parent=original.user_message, role=Message.Role.ASSISTANT
        )


def _parent(conversation: Conversation, parent_id: str | None) -> Message | None:
    if parent_id is None:
        return selectors.newest_message(conversation_id=conversation.pk)
    if parent_id == ROOT:
        return None
    try:
        return conversation.messages.get(pk=UUID(parent_id))
    except (ValueError, Message.DoesNotExist):
        raise UnknownParent(f"parent_id {parent_id!r} names no message of this conversation.") from None


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


def retitle(*, conversation: Conversation, title: str) -> None:
    conversation.title = storable(title.strip()[:200])
    conversation.save(update_fields=("title", "updated_at"))


def set_instructions(*, conversation: Conversation, instructions: str) -> None:
    conversation.instructions = storable(instructions)
    conversation.save(update_fields=("instructions", "updated_at"))


def delete_conversation(*, conversation: Conversation) -> None:
    """The conversation with its messages, responses, logs and feedback. Cancel its active responses first."""
    conversation.delete()


def share(*, response: Response) -> Share:
    """The link to this response's trace, made if there is none. Raises NotShareable.

    What input safety has declined was not released, so it is not handed on either.
    """
    if response.status in Response.ACTIVE:
        raise NotShareable("This answer is not finished; share it when it has ended.")
    if response.finish_reason in ("refusal", "refused"):
        raise NotShareable("This request was declined, so there is no trace of an answer to share.")
    made, _ = Share.objects.get_or_create(response=response)
    return made


def take_back_share(*, response: Response) -> None:
    """The link leads nowhere from now on; a later one will be another."""
    Share.objects.filter(response=response).delete()


def give_feedback(*, response: Response, rating: int | None, comment: str = "") -> None:
    """Set the rating of a response; null takes it back."""
    if rating is None:
        Feedback.objects.filter(response=response).delete()
    else:
        Feedback.objects.update_or_create(response=response, defaults={"rating": rating, "comment": storable(comment)})
