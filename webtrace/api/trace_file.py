"""A trace as it leaves its owner's hands, through a share link or as a file: everything about the request, nothing
about the person."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from django.utils import timezone

from webtrace.conversations import log
from webtrace.conversations.log import Line
from webtrace.conversations.models import Response
from webtrace.dispatch import workers

Format = Literal["webtrace trace"]
Version = Literal[1]
FORMAT: Format = "webtrace trace"
VERSION: Version = 1
SCHEMA_PATH = "/api/v1/schema/trace"
LEFT_OUT = [
    "request: headers of the browser",
    "gateway: name and limits of whoever asked",
    "storage: where the record stands in the admin",
    "conversation: its id and title",
]


class TracedResponse(msgspec.Struct, frozen=True):
    """The record of the response. `prompt` is what was typed; times are milliseconds, null where not known."""

    id: str
    prompt: str
    status: str
    finish_reason: str | None
    text: str
    sampling: dict[str, Any]
    usage: dict[str, int]
    error: dict[str, str] | None
    model: str | None
    fingerprint: str | None
    timings: dict[str, float | None]
    created_at: str


class KeptTensor(msgspec.Struct, frozen=True):
    """`data` is base64 of little-endian numbers, row by row."""

    dtype: Literal["F32", "I32"]
    shape: list[int]
    data: str


class KeptView(msgspec.Struct, frozen=True):
    """A view as `GET …/views/<slug>` gave it: `info` is its structured part."""

    slug: str
    query: dict[str, Any]
    info: dict[str, Any]
    tensors: dict[str, KeptTensor]


class TraceFile(msgspec.Struct, frozen=True, rename={"schema": "$schema"}):
    """One response's trace as a file. `events` are the numbered events of its log; `model` the dimensions of what
    computed it. The page adds the `views` that were looked at, and in `fragment` where: the part of its address behind
    the #; a file from the service has neither."""

    schema: str
    format: Format
    version: Version
    exported_at: str
    left_out: list[str]
    model: dict[str, Any] | None
    response: TracedResponse
    events: list[dict[str, Any]]
    views: list[KeptView] = []
    fragment: str = ""


def schema() -> dict[str, Any]:
    """The JSON Schema of the file."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(TraceFile)}


def trace_file(response: Response) -> TraceFile:
    """Synchronous: reads the whole log."""
    events = [_public(line) for line in _all_lines(response)]
    return TraceFile(
        schema=SCHEMA_PATH,
        format=FORMAT,
        version=VERSION,
        exported_at=timezone.now().isoformat(),
        left_out=LEFT_OUT,
        model=workers.model_of(response),
        response=traced_response(response),
        events=events,
    )


def traced_response(response: Response) -> TracedResponse:
    asked = response.request.get("input") or [{"content": ""}]
    return TracedResponse(
        id=str(response.pk),
        prompt=response.user_message.content if response.user_message else asked[-1]["content"],
        status=response.status,
        finish_reason=response.finish_reason or None,
        text=response.text,
        sampling=response.sampling,
        usage={
            "input_tokens": response.num_prompt_tokens,
            "output_tokens": response.num_answer_tokens,
            "cached_tokens": response.num_prefix_tokens,
        },
        error={"code": response.error_code, "message": response.error_message} if response.error_code else None,
        model=response.model or None,
        fingerprint=response.numbers_fingerprint or None,
        timings={
            "queue_ms": response.queue_ms,
            "time_to_first_token_ms": response.time_to_first_token_ms,
            "end_to_end_ms": response.end_to_end_ms,
        },
        created_at=response.created_at.isoformat(),
    )


def public_text(line: Line) -> str:
    """An event as others may see it, as JSON."""
    if line.type not in ("trace.stage", "response.created"):
        return line.text
    return msgspec.json.encode(_public(line)).decode()


def _public(line: Line) -> dict[str, Any]:
    event: dict[str, Any] = msgspec.json.decode(line.text)
    if event["type"] == "response.created":
        return event | {"conversation_id": None, "title": None}
    if event["type"] == "trace.stage" and (hide := _HIDE.get(event["stage"])) is not None:
        return hide(event)
    return event


def _hide_headers(event: dict[str, Any]) -> dict[str, Any]:
    return event | {"data": event["data"] | {"headers": []}}


def _hide_asker(event: dict[str, Any]) -> dict[str, Any]:
    """Who asked, and what they had left of their limit."""
    data = event["data"]
    output = event["output"] if data["refused"] else "admitted"
    checks = [check | _ANONYMOUS.get(check["name"], {}) for check in data["checks"]]
    return event | {"output": output, "data": data | {"checks": checks}}


_ANONYMOUS: dict[str, dict[str, Any]] = {
    "authentication": {"detail": "known to the service"},
    "limit": {"detail": "within the limit", "limit": None, "remaining": None, "resets_in_s": None},
}


def _hide_admin(event: dict[str, Any]) -> dict[str, Any]:
    return event | {"data": event["data"] | {"admin_path": ""}}


_HIDE = {"request": _hide_headers, "gateway": _hide_asker, "storage": _hide_admin}


def _all_lines(response: Response) -> list[Line]:
    lines: list[Line] = []
    while more := log.read(response.pk, lines[-1].place if lines else log.START):
        lines += more
    return lines
