"""One visit to a site in Chromium: a request, its answer, and what the service says about it over HTTP."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import safetensors.numpy
from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, WebSocket, expect

from tests.service.site import Site


@dataclass
class Journey:
    """The page; the frames its socket sent and received; once `read_back`, the stored response and its event log."""

    page: Page
    base: str
    frames: list[str] = field(default_factory=list)
    received: list[dict[str, Any]] = field(default_factory=list)
    response: dict[str, Any] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)

    def read_back(self) -> None:
        """Read the newest answer of the open conversation."""
        conversation = re.search(r"/c/([0-9a-f-]+)", self.page.url)
        assert conversation is not None
        answer = self.get(f"conversations/{conversation[1]}")["messages"][-1]
        self.response = self.get(f"responses/{answer['response']['id']}")
        self.events = self._read_events()

    def get(self, path: str) -> Any:
        reply = self.page.request.get(f"{self.base}/api/v1/{path}")
        assert reply.ok, reply.text()
        return reply.json()

    def view(self, slug: str, **query: int | float | str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        path = f"{self.base}/api/v1/responses/{self.response['id']}/views/{slug}"
        reply = self.page.request.get(path, params={name: str(value) for name, value in query.items()})
        assert reply.ok, reply.text()
        body = reply.body()
        size = int.from_bytes(body[:8], "little")
        info = json.loads(json.loads(body[8 : 8 + size])["__metadata__"]["view"])
        return info, safetensors.numpy.load(body)

    def go(self, slug: str) -> Locator:
        """Open a stage by its station on the map."""
        self.page.locator(f".station[data-slug={slug}]").click()
        stage = self.page.locator(f"#stage-{slug}")
        expect(stage).to_be_visible()
        return stage

    def of_type(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == kind]

    @property
    def steps(self) -> list[dict[str, Any]]:
        return self.of_type("trace.step")

    @property
    def text(self) -> str:
        return str(self.response["text"])

    def _read_events(self) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = []
        epoch, after = 0, 0
        while True:
            page = self.get(f"responses/{self.response['id']}/events?epoch={epoch}&after={after}")
            events += page["events"]
            if not page["events"]:
                return events
            epoch, after = events[-1]["epoch"], events[-1]["sequence_number"]


@contextmanager
def visit(browser: Browser, site: Site) -> Iterator[Journey]:
    """Open the site as somebody new. At the end the page must not have had an error."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    page = context.new_page()
    journey = Journey(page, site.url)
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if _is_complaint(message) else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("websocket", lambda socket: _listen(socket, journey))
    page.goto(site.url)
    yield journey
    context.close()
    assert complaints == []


def _listen(socket: WebSocket, journey: Journey) -> None:
    socket.on("framesent", lambda frame: journey.frames.append(str(frame)))
    socket.on("framereceived", lambda frame: journey.received.append(json.loads(frame)))


def _is_complaint(message: ConsoleMessage) -> bool:
    """The browser logs HTTP statuses by itself; the test that provokes one looks at what the page makes of it."""
    return message.type == "error" and not message.text.startswith("Failed to load resource")


def shown(stage: Locator, name: str) -> float:
    """The full precision behind a number on the page."""
    value = stage.locator(f'[data-name="{name}"]').first
    expect(value).to_be_attached()
    return float(str(value.get_attribute("data-value")))


def all_shown(stage: Locator) -> dict[str, float]:
    """Every number of the open stage by name."""
    script = "all => all.map((one) => [one.dataset.name, Number(one.dataset.value)])"
    return dict(stage.locator("[data-name][data-value]").evaluate_all(script))


def map_of(stage: Locator) -> list[list[float | None]]:
    """The numbers behind the drawn attention map, [queries][keys]."""
    plot = stage.locator(".heatmap-plot[data-drawn]")
    expect(plot).to_be_visible()
    return list(plot.evaluate("plot => plot.data[0].z"))
