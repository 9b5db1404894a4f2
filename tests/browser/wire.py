"""A scripted service at the other end of the page's WebSocket, for what a healthy one does not do on demand."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page, Route, WebSocketRoute

Event = dict[str, Any]
MODEL = "scripted"


class Wire:
    """Takes the place of `/ws/v1/` and of the log over HTTP on one page. `frames` are the client's, oldest first."""

    def __init__(self, page: Page) -> None:
        self.frames: list[Event] = []
        self.logs: dict[str, list[Event]] = {}
        self.asked: list[str] = []  # addresses of the log that were read
        self.answer: Callable[[Event], None] = lambda frame: None
        self._sockets: list[WebSocketRoute] = []
        page.route_web_socket("**/ws/v1/", self._opened)
        page.route("**/api/v1/responses/**", self._http)

    def _opened(self, socket: WebSocketRoute) -> None:
        self._sockets.append(socket)

        def heard(text: str | bytes) -> None:
            frame = json.loads(text)
            self.frames.append(frame)
            self.answer(frame)

        socket.on_message(heard)

    def _http(self, route: Route) -> None:
        url = route.request.url
        response_id = url.split("/responses/")[1].split("/")[0].split("?")[0]
        if "/events" not in url:
            text = next((event["text"] for event in reversed(self.logs.get(response_id, [])) if "text" in event), "")
            route.fulfill(json={"id": response_id, "html": None, "text": text, "feedback": None, "breakpoints": []})
            return
        self.asked.append(url)
        query = dict(pair.split("=") for pair in url.split("?")[1].split("&"))
        place = (int(query["epoch"]), int(query["after"]))
        events = [e for e in self.logs.get(response_id, []) if (e["epoch"], e["sequence_number"]) > place]
        route.fulfill(json={"events": events[:50], "finished": False})

    def send(self, *events: Event) -> None:
        for event in events:
            self._sockets[-1].send(json.dumps(event))

    def lose(self) -> None:
        """The connection breaks."""
        self._sockets[-1].close(code=1012, reason="going away")


class Script:
    """The events of one response, numbered as the service numbers them."""

    def __init__(self, response_id: str, create: Event, conversation_id: str | None = None) -> None:
        self.id = response_id
        self.epoch = 0
        self.number = 0
        self.events: list[Event] = []
        self.sampling = create["sampling"]
        self.add(
            "response.created", event_id=create["event_id"], conversation_id=conversation_id,
            message_id=f"user-{response_id}", answer_id=f"answer-{response_id}", parent_id=create["parent_id"],
            title=create["input"], model="auto", sampling=create["sampling"], created_at="2026-01-01T00:00:00Z",
        )  # fmt: skip

    def add(self, kind: str, **fields: Any) -> Event:
        self.number += 1
        event = {
            "type": kind, "response_id": self.id, "epoch": self.epoch, "sequence_number": self.number, **fields,
        }  # fmt: skip
        self.events.append(event)
        return event

    def new_epoch(self) -> None:
        self.epoch += 1
        self.number = 0

    def begin(self) -> Event:
        return self.add(
            "response.in_progress", worker_id="worker", model=MODEL, fingerprint="print", sampling=self.sampling
        )

    def say(self, text: str) -> Event:
        return self.add("response.output_text.delta", delta=text)

    def step(self, step: int, text: str) -> Event:
        return self.add(
            "trace.step", step=step, position=step, token=step, token_text=text, text=text, held_bytes=0,
            raw_logprob=-0.5, logprob=-0.5, rank=0, entropy=1.0, candidates=[[step, text, 1.0, 0.6, 0.6]],
            ledger={"filters": [], "draw": 0.5, "greedy": False},
            kv={"num_blocks": 1, "rows_computed": 1, "rows_reused": step},
            timing={"at_ms": 1.0 * step, "forward_ms": 1.0, "sample_ms": 0.1, "batch_size": 1},
        )  # fmt: skip

    def end(self, text: str, kind: str = "completed", finish_reason: str = "stop", **fields: Any) -> Event:
        usage = {"input_tokens": 3, "output_tokens": 3, "cached_tokens": 0}
        return self.add(f"response.{kind}", finish_reason=finish_reason, text=text, usage=usage, error=None, **fields)
