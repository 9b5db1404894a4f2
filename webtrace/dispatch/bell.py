"""Rings that say "look at the database". A ring that is lost is made up for by the sweep."""

from __future__ import annotations

import logging
from typing import Any
from uuid import UUID

from channels.layers import get_channel_layer

logger = logging.getLogger(__name__)

SHARED = "inference"  # every worker listens here


def own_channel(worker_id: str) -> str:
    """The channel only this worker listens on."""
    return f"{SHARED}.{worker_id}"


async def ring_job(response_id: UUID, *, worker_id: str | None = None) -> None:
    """A job waits: for any worker, or for the one that routing has chosen."""
    channel = own_channel(worker_id) if worker_id else SHARED
    await _ring(channel, {"type": "job.ring", "response_id": str(response_id)})


async def ring_cancel(response_id: UUID, *, worker_id: str) -> None:
    """A cancel stands in the job's row."""
    await _ring(own_channel(worker_id), {"type": "job.cancel", "response_id": str(response_id)})


async def ring_continue(response_id: UUID, *, worker_id: str) -> None:
    """Where to go on to stands in the row of a held job."""
    await _ring(own_channel(worker_id), {"type": "job.continue", "response_id": str(response_id)})


async def ring_view(*, worker_id: str, request_key: str, response_id: UUID, slug: str, query: dict[str, Any]) -> None:
    """Ask a worker for a view; the reply appears in the cache under `request_key`."""
    message = {
        "type": "view.request",
        "request_key": request_key,
        "response_id": str(response_id),
        "slug": slug,
        "query": query,
    }
    await _ring(own_channel(worker_id), message)


async def _ring(channel: str, message: dict[str, Any]) -> None:
    try:
        await get_channel_layer().send(channel, message)
    except Exception:  # a full or broken layer: the row is there, the sweep will ring again
        logger.warning("%s to %s was lost.", message["type"], channel, exc_info=True)
