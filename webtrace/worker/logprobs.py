"""The log-probabilities a finished response was recorded with: what a recomputation of it is compared with."""

from __future__ import annotations

from functools import lru_cache
from uuid import UUID

import msgspec
from channels.db import database_sync_to_async

from webtrace.conversations import log
from webtrace.conversations.models import Response
from webtrace.events import TraceStep

LARGEST_LOG = 1 << 30


class _Step(msgspec.Struct):
    raw_logprob: float | None


async def recorded_logprobs(response: Response) -> list[float | None]:
    """The raw ones of its steps, in order; none while it runs or where it was not traced."""
    if not response.trace or response.status in Response.ACTIVE:
        return []
    return list(await database_sync_to_async(_read)(response.pk, response.epoch))


@lru_cache(maxsize=64)
def _read(response_id: UUID, epoch: int) -> tuple[float | None, ...]:
    """From the log, which no longer changes."""
    tag = TraceStep.__struct_config__.tag
    lines = log.read(response_id, log.Place(epoch, 0), max_bytes=LARGEST_LOG)
    steps = [line.text for line in lines if line.type == tag]
    return tuple(msgspec.json.decode(text, type=_Step).raw_logprob for text in steps)
