"""Reads: conversations, their messages, responses. Every function takes the owner: others' rows do not exist for it."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from django.db.models import Count, Q, QuerySet

from webtrace.accounts.models import User
from webtrace.conversations.models import Conversation, Message, Response, Share

ONE_DAY = datetime.timedelta(days=1)


class Cursor(NamedTuple):
    """Where a page of conversations ends: the next one holds those before it."""

    updated_at: datetime.datetime
    id: UUID


def conversations(
    *, owner: User, search: str = "", before: Cursor | None = None, limit: int = 50
) -> list[Conversation]:
    """Newest first, with `num_messages`. `search` looks in titles and in messages."""
    found: QuerySet[Conversation] = Conversation.objects.filter(owner=owner)
    if search:
        in_messages = Message.objects.filter(conversation__owner=owner, content__icontains=search)
        found = found.filter(Q(title__icontains=search) | Q(pk__in=in_messages.values("conversation")))
    if before is not None:
        found = found.filter(Q(updated_at__lt=before.updated_at) | Q(updated_at=before.updated_at, pk__lt=before.id))
    return list(found.annotate(num_messages=Count("messages")).order_by("-updated_at", "-pk")[:limit])


def conversation(*, owner: User, conversation_id: UUID) -> Conversation:
    """Raises Conversation.DoesNotExist, for a stranger too."""
    return Conversation.objects.get(pk=conversation_id, owner=owner)


def messages(*, conversation_id: UUID) -> list[Message]:
    """The whole tree in order of creation, each answer with its response and feedback."""
    found = Message.objects.filter(conversation=conversation_id).select_related("response", "response__feedback")
    return list(found.order_by("created_at", "pk"))


def newest_message(*, conversation_id: UUID) -> Message | None:
    return Message.objects.filter(conversation=conversation_id).order_by("created_at", "pk").last()


def branch(*, message_id: UUID | None) -> list[Message]:
    """The messages from the first turn down to this one."""
    if message_id is None:
        return []
    siblings = Message.objects.filter(conversation__messages=message_id)
    by_id = {message.pk: message for message in siblings}
    chain: list[Message] = []
    following: UUID | None = message_id
    while following is not None:
        chain.append(by_id[following])
        following = chain[-1].parent_id
    return chain[::-1]


def written_tokens(*, messages: Iterable[Message], model: str) -> dict[UUID, tuple[int, ...]]:
    """The token ids with which this model wrote those of the messages that are its answers, as far as released."""
    made = Response.objects.filter(answer__in=list(messages), model=model)
    rows = made.values_list("answer", "token_ids", "num_prompt_tokens")
    return {answer: tuple(token_ids[num_prompt:]) for answer, token_ids, num_prompt in rows}


def response(*, owner: User, response_id: UUID) -> Response:
    """Raises Response.DoesNotExist, for a stranger too."""
    found = Response.objects.select_related("conversation", "answer", "feedback")
    return found.get(pk=response_id, owner=owner)


def responses(*, owner: User, search: str = "", limit: int = 50) -> list[Response]:
    """Those that have ended with at least one token, newest first. `search` looks in the conversation's title, in the
    prompt and in the answer."""
    found = Response.objects.filter(owner=owner, num_answer_tokens__gt=0).exclude(status__in=Response.ACTIVE)
    if search:
        in_title = Q(conversation__title__icontains=search)
        found = found.filter(in_title | Q(user_message__content__icontains=search) | Q(text__icontains=search))
    found = found.select_related("conversation").defer("token_ids", "resources")
    return list(found.order_by("-created_at", "-pk")[:limit])


def shared_response(*, token: str) -> Response:
    """The response a share link leads to. Raises Response.DoesNotExist for a link that was taken back, too."""
    found = Response.objects.select_related("user_message", "owner")
    return found.get(share__token=token, owner__is_active=True)


def share_of(response: Response) -> Share | None:
    return Share.objects.filter(response=response).first()


def repeated(*, owner: User, event_id: str, now: datetime.datetime) -> Response | None:
    """The response this owner's `event_id` has already made within a day."""
    recent = Response.objects.filter(owner=owner, event_id=event_id, created_at__gt=now - ONE_DAY)
    return recent.order_by("created_at").last()
