"""Cancel a response from any process."""

from __future__ import annotations

from uuid import UUID

from channels.db import database_sync_to_async

from webtrace.conversations import live
from webtrace.dispatch import bell, jobs
from webtrace.events import FinishReason


async def cancel_response(response_id: UUID, *, reason: FinishReason = "cancelled") -> None:
    """In the database first, then by a ring to its worker. One that has ended stays as it is."""
    result = await database_sync_to_async(jobs.cancel)(response_id=response_id, reason=reason)
    if result.ended:
        await live.publish([(result.ended.response_id, result.ended.lines)])
    if result.worker_id:
        await bell.ring_cancel(response_id, worker_id=result.worker_id)
