"""/api/v1/conversations: list, read, rename, delete, export."""

from __future__ import annotations

import base64
import datetime
from typing import Any
from uuid import UUID

import msgspec
from django.conf import settings
from django.http import HttpRequest, HttpResponse

from webtrace.api.database import in_database
from webtrace.api.http import Problem, identifier, integer, read_body
from webtrace.api.markdown import to_html
from webtrace.api.responses import feedback_of
from webtrace.conversations import selectors, services
from webtrace.conversations.models import Conversation, Message, Response
from webtrace.conversations.selectors import Cursor
from webtrace.dispatch.cancel import cancel_response
from webtrace.gateway.principal import Principal

MAX_TITLE = 200
EXPORT_VERSION = 1


class Change(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    title: str | None = None
    instructions: str | None = None


_change = msgspec.json.Decoder(Change)


async def index(request: HttpRequest, principal: Principal | None) -> dict[str, Any]:
    if principal is None:
        return {"conversations": [], "next": None}
    limit = integer(request, "limit", 50, low=1, high=200)
    found = await in_database(
        selectors.conversations,
        owner=principal.user,
        search=request.GET.get("search", "")[:200].replace("\x00", ""),
        before=_cursor(request.GET.get("before")),
        limit=limit + 1,
    )
    page = found[:limit]
    return {
        "conversations": [_row(conversation) for conversation in page],
        "next": _cursor_text(page[-1]) if len(found) > limit else None,
    }


async def show(request: HttpRequest, principal: Principal, conversation_id: str) -> dict[str, Any]:
    conversation = await _own(principal, conversation_id)
    return await in_database(_whole, conversation)


async def change(request: HttpRequest, principal: Principal, conversation_id: str) -> dict[str, Any]:
    wanted = read_body(request, _change)
    conversation = await _own(principal, conversation_id)
    if wanted.title is not None:
        if not 1 <= len(wanted.title.strip()) <= MAX_TITLE:
            raise Problem(400, "invalid_value", f"title must have 1 to {MAX_TITLE} characters.", "title")
        await in_database(services.retitle, conversation=conversation, title=wanted.title)
    if wanted.instructions is not None:
        size, most = len(wanted.instructions), settings.MAX_INPUT_CHARACTERS
        if size > most:
            message = f"instructions has {size:,} characters; at most {most:,} are allowed."
            raise Problem(400, "too_large", message, "instructions")
        await in_database(services.set_instructions, conversation=conversation, instructions=wanted.instructions)
    return await in_database(_whole, conversation)


async def delete(request: HttpRequest, principal: Principal, conversation_id: str) -> None:
    """With everything in it. What is still being generated is cancelled first."""
    conversation = await _own(principal, conversation_id)
    for response_id in await in_database(_active, conversation):
        await cancel_response(response_id)
    await in_database(services.delete_conversation, conversation=conversation)


async def export(request: HttpRequest, principal: Principal, conversation_id: str) -> HttpResponse:
    """The conversation as a JSON file."""
    conversation = await _own(principal, conversation_id)
    whole = await in_database(_whole, conversation)
    for message in whole["messages"]:
        del message["html"]
    body = msgspec.json.format(
        msgspec.json.encode({"format": "webtrace conversation", "version": EXPORT_VERSION, **whole})
    )
    response = HttpResponse(body, content_type="application/json")
    response["Content-Disposition"] = f'attachment; filename="conversation-{conversation.pk}.json"'
    return response


async def _own(principal: Principal, conversation_id: str) -> Conversation:
    return await in_database(selectors.conversation, owner=principal.user, conversation_id=identifier(conversation_id))


def _active(conversation: Conversation) -> list[UUID]:
    active = Response.objects.filter(conversation=conversation, status__in=Response.ACTIVE)
    return list(active.values_list("pk", flat=True))


def _row(conversation: Any) -> dict[str, Any]:
    return {
        "id": conversation.pk,
        "title": conversation.title,
        "created_at": conversation.created_at,
        "updated_at": conversation.updated_at,
        "num_messages": conversation.num_messages,
    }


def _whole(conversation: Conversation) -> dict[str, Any]:
    messages = selectors.messages(conversation_id=conversation.pk)
    return {
        "id": conversation.pk,
        "title": conversation.title,
        "instructions": conversation.instructions,
        "sampling": conversation.sampling,
        "created_at": conversation.created_at,
        "messages": [_message(message) for message in messages],
    }


def _message(message: Message) -> dict[str, Any]:
    response: Response | None = getattr(message, "response", None)
    finished = message.role == Message.Role.ASSISTANT and (response is None or response.status not in Response.ACTIVE)
    return {
        "id": message.pk,
        "parent_id": message.parent_id,
        "role": message.role,
        "content": message.content,
        "html": to_html(message.content) if finished else None,
        "created_at": message.created_at,
        "response": response
        and {
            "id": response.pk,
            "status": response.status,
            "finish_reason": response.finish_reason or None,
            "epoch": response.epoch,
            "feedback": feedback_of(response),
        },
    }


def _cursor_text(conversation: Conversation) -> str:
    raw = f"{conversation.updated_at.isoformat()} {conversation.pk}"
    return base64.urlsafe_b64encode(raw.encode()).decode()


def _cursor(text: str | None) -> Cursor | None:
    if not text:
        return None
    try:
        moment, conversation_id = base64.urlsafe_b64decode(text).decode().split(" ")
        updated_at = datetime.datetime.fromisoformat(moment).astimezone(datetime.UTC)
        return Cursor(updated_at, UUID(conversation_id))
    except (ValueError, OverflowError):  # a moment near either end of the calendar has no UTC
        raise Problem(400, "invalid_value", "before must be the `next` of an earlier page.", "before") from None
