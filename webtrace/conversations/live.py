"""The doorbell for watchers: publishes lines to the hub of every web process. At most once, order not promised."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from channels.layers import get_channel_layer
from django.conf import settings

from webtrace.conversations.log import Line

logger = logging.getLogger(__name__)

HUBS = "hubs"  # the group every web process's hub joins
_ENVELOPE_BYTES = 200  # of names and numbers around one line's text


def messages(batches: Iterable[tuple[UUID, Sequence[Line]]]) -> list[dict[str, Any]]:
    """`live.events` messages, each within the size limit.

    `batches` in a message is a list of `[response_id, [[epoch, number, type, text], …]]`: plain values only, so that
    every channel layer can carry them. A line too big for any message is left to the log.
    """
    made: list[dict[str, Any]] = []
    room = 0
    for response_id, lines in batches:
        rows: list[list[Any]] | None = None
        for line in lines:
            size = len(line.text.encode()) + _ENVELOPE_BYTES
            if size > settings.MAX_MESSAGE_BYTES:
                logger.warning("An event of %s has %d bytes: it is only in the log.", response_id, size)
                continue
            if size > room:
                made.append({"type": "live.events", "batches": []})
                room = settings.MAX_MESSAGE_BYTES - _ENVELOPE_BYTES
                rows = None
            if rows is None:
                rows = []
                made[-1]["batches"].append([str(response_id), rows])
            rows.append([line.epoch, line.number, line.type, line.text])
            room -= size
    return made


def lines_of(rows: Iterable[Sequence[Any]]) -> list[Line]:
    """The lines of one batch of a `live.events` message."""
    return [Line(*row) for row in rows]


async def publish(batches: Iterable[tuple[UUID, Sequence[Line]]]) -> None:
    """Send lines to all hubs. A layer that fails loses them: readers find them in the log."""
    layer = get_channel_layer()
    for message in messages(batches):
        try:
            await layer.group_send(HUBS, message)
        except Exception:
            logger.exception("Live events could not be sent.")
