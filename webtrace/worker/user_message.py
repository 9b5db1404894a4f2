"""The text of the user's message that a response answers."""

from __future__ import annotations

from uuid import UUID

from channels.db import database_sync_to_async

from inference.query import QueryError
from webtrace.conversations.models import Response


async def user_message(response_id: UUID) -> str:
    """Raises QueryError where no message is stored."""
    found = Response.objects.filter(pk=response_id).values_list("user_message__content", flat=True)
    text = await database_sync_to_async(found.first)()
    if not text:
        raise QueryError("response_id", "answers no stored message")
    return str(text)
