"""A foreign WebSocket client with the few moves the tests need."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.service.browser import Browser
from tests.service.site import Site

ENDS = {"completed", "incomplete", "cancelled", "failed", "interrupted"}
Event = dict[str, Any]


class Talk:
    """One connection."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    def send(self, message: Event | str | bytes) -> None:
        self.connection.send(json.dumps(message) if isinstance(message, dict) else message)

    def create(self, text: str = "Tell me a political joke", **more: Any) -> str:
        """Ask for an answer. Returns the event's id."""
        event_id = str(more.pop("event_id", uuid.uuid4()))
        self.send({"type": "response.create", "event_id": event_id, "input": text, **more})
        return event_id

    def next(self, timeout: float = 10) -> Event:
        event: Event = json.loads(self.connection.recv(timeout=timeout))
        return event

    def until(self, *types: str) -> list[Event]:
        """Events up to and including the first of one of these types."""
        events = [self.next()]
        while events[-1]["type"] not in types:
            events.append(self.next())
        return events

    def to_end(self) -> list[Event]:
        return self.until(*(f"response.{end}" for end in ENDS))

    def close_code(self) -> int | None:
        """Read to the end of the connection; the code it was closed with."""
        try:
            while True:
                self.connection.recv(timeout=10)
        except ConnectionClosed as closed:
            return closed.rcvd.code if closed.rcvd else None


@contextmanager
def by_key(site: Site, key: str, **headers: str) -> Iterator[Talk]:
    with _connect(site, {"Authorization": f"Bearer {key}", **headers}) as connection:
        yield Talk(connection)


@contextmanager
def by_cookie(site: Site, browser: Browser | None, origin: str | None = None, **headers: str) -> Iterator[Talk]:
    cookies = "; ".join(f"{name}={value}" for name, value in (browser.cookies if browser else {}).items())
    sent = {"Origin": origin or site.url, **({"Cookie": cookies} if cookies else {}), **headers}
    with _connect(site, sent) as connection:
        yield Talk(connection)


def _connect(site: Site, headers: dict[str, str]) -> ClientConnection:
    # Without a bound on what waits here: a bounded client stops reading, and then closing takes its whole timeout.
    return connect(site.socket_url, additional_headers=headers, max_queue=None)


def text_of(events: list[Event], response_id: str | None = None) -> str:
    """The text a reader of these events has."""
    return "".join(
        event["delta"]
        for event in events
        if event["type"] == "response.output_text.delta" and response_id in (None, event["response_id"])
    )
