"""The responses that one socket watches."""

from __future__ import annotations

from uuid import UUID

from webtrace.api.hub import Hub
from webtrace.api.watch import Sink, Watch
from webtrace.conversations.log import Place

MAX_WATCHES = 64  # a socket


class Watches:
    """One `Watch` of the hub for each response, its events going to `sink`."""

    def __init__(self, hub: Hub, sink: Sink) -> None:
        self._hub, self._sink = hub, sink
        self._of: dict[UUID, Watch] = {}

    def __len__(self) -> int:
        return len(self._of)

    def begin(self, response_id: UUID, place: Place) -> None:
        """From now on the sink gets the response's events after `place`."""
        if (former := self._of.pop(response_id, None)) is not None:
            self._hub.unwatch(former)
        self._of[response_id] = self._hub.watch(response_id, place, self._sink)

    def ended(self, response_id: UUID) -> None:
        """The sink has got the response's end; the hub has let go of it."""
        self._of.pop(response_id, None)

    def close(self) -> None:
        for watch in self._of.values():
            self._hub.unwatch(watch)
