"""A response's event log as a table for the admin. Everything in it is escaped."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any
from uuid import UUID

import msgspec
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from webtrace.conversations import log
from webtrace.conversations.log import Line, Place

MOST_ROWS = 500  # from the beginning, and from the end
MOST_CHARACTERS = 300  # of one cell


def event_table(response_id: UUID) -> SafeString:
    """Every event with its place, what it says, when it began and how long it took; of very many, those in the
    middle are left out."""
    first: list[Line] = []
    last: deque[Line] = deque(maxlen=MOST_ROWS)
    num_others, place = 0, Place()
    while page := log.read(response_id, place):
        place = page[-1].place
        room = MOST_ROWS - len(first)
        first += page[:room]
        last.extend(page[room:])
        num_others += len(page[room:])
    gap = num_others - len(last)
    return format_html(
        "<table><thead><tr><th>Epoch</th><th>Number</th><th>Event</th><th>What</th><th>Started (ms)</th>"
        "<th>Took (ms)</th></tr></thead><tbody>{}{}{}</tbody></table>",
        _rows(first),
        format_html('<tr><td colspan="6">… {} events …</td></tr>', gap) if gap else "",
        _rows(last),
    )


def _rows(lines: Iterable[Line]) -> SafeString:
    row = "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>"
    return format_html_join("", row, map(_row, lines))


def _row(line: Line) -> tuple[Any, ...]:
    event = msgspec.json.decode(line.text)
    timing = event.get("timing", {})
    started = event.get("started_ms", timing.get("at_ms"))
    took = event.get("duration_ms", timing.get("forward_ms"))
    return line.epoch, line.number, line.type, _what(event)[:MOST_CHARACTERS], _ms(started), _ms(took)


def _what(event: dict[str, Any]) -> str:
    match event["type"]:
        case "trace.stage":
            return f"{event['stage']} ({event['outcome']}): {event['input']} → {event['operation']} → {event['output']}"
        case "trace.step":
            return f"step {event['step']}: token {event['token']} {event['token_text']!r}, rank {event['rank']}"
        case "response.output_text.delta":
            return repr(event["delta"])
        case "response.queued":
            return f"{event['position']} before it"
        case "response.in_progress":
            return f"worker {event['worker_id']}, {event['model']}"
        case _:
            error = event.get("error") or {}
            parts = (event.get("finish_reason"), error.get("code"), error.get("message"), event.get("reason"))
            return ", ".join(str(part) for part in parts if part)


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
