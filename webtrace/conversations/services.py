"""Writes: one function for each thing that can happen to a conversation or a response."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import msgspec
from django.db import transaction
from django.utils import timezone

from inference.messages import AskedSampling, Sampling
from webtrace.accounts.models import User
from webtrace.client_events import InputMessage, ResponseCreate
from webtrace.conversations import branching, selectors
from webtrace.conversations.log import storable
from webtrace.conversations.models import Conversation, Feedback, Message, Response, Share

TITLE_CHARACTERS = 80
SERVICE_DEFAULTS = Sampling()  # of a request that comes with none of its own
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
    defaults: Sampling = SERVICE_DEFAULTS,
    keep: bool = True,
    refused: bool = False,
) -> tuple[Response, bool]:
    """A response for this request, with its conversation and messages, and whether it is new.

    `defaults` holds for what neither the request nor the model's checkpoint says, see `settle_sampling`.

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
        request=_request(message, defaults),
        trace=message.trace,
    )
    if refused:
        response.conversation = _conversation_if_own(owner, message.conversation_id)
    elif (original := branching.original(owner=owner, message=message, max_tokens=sampling.max_tokens)) is not None:
        _add_version(response, original, message)
    elif keep:
        _add_turn(response, owner, message)
    response.save(force_insert=True)
    return response, True


def _request(message: ResponseCreate, defaults: Sampling) -> dict[str, Any]:
    """What the worker needs of the request, as JSON."""
    return {
        "input": [{"role": one.role, "content": storable(one.content)} for one in inputs(message)],
        "instructions": storable(message.instructions or ""),
        "retrieval": message.retrieval,
        "breakpoints": msgspec.to_builtins(message.breakpoints),
        "left_open": _left_open(message.sampling, defaults),
        "parent_id": None,
    }


def _left_open(asked: AskedSampling, defaults: Sampling) -> dict[str, Any]:
    """The sampling parameters of which the request says nothing, with their defaults; a seed is drawn instead."""
    plain = msgspec.to_builtins(defaults, str_keys=True)
    return {name: value for name, value in plain.items() if name != "seed" and getattr(asked, name) is None}


def settle_sampling(*, response: Response, stated: Mapping[str, float]) -> None:
    """What the request left open is from now on as the checkpoint of the worker's model states it, which need not be
    the one known when it was admitted, if there was any. Its conversation goes on so, if that is its newest request.

    Call with the response's row locked.
    """
    before = response.sampling
    response.sampling = before | {
        name: stated.get(name, value) for name, value in response.request["left_open"].items()
    }
    if response.sampling == before:
        return
    response.save(update_fields=("sampling",))
    conversation = response.conversation
    if conversation is None or response.request.get("branch"):
        return
    if {**conversation.sampling, "seed": None} == {**before, "seed": None}:
        conversation.sampling = {**response.sampling, "seed": conversation.sampling["seed"]}
        conversation.save(update_fields=("sampling",))


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
    response.request = {
        **original.request, "branch": None, "breakpoints": own["breakpoints"], "left_open": own["left_open"]
    }  # fmt: skip
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
