"""The wire's own description, generated from its types: AsyncAPI 3 with JSON Schema, and a document to read."""

from __future__ import annotations

import inspect
import types
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from inference.query import ASKED
from webtrace import client_events, events
from webtrace.reporting.stage_reports import REPORTS
from webtrace.stages import STAGES

TO_SERVER: tuple[type[msgspec.Struct], ...] = get_args(client_events.ClientMessage)
TO_CLIENT: tuple[type[msgspec.Struct], ...] = get_args(events.ServerMessage)
CLOSE_CODES = {
    events.CLOSE_BAD_FRAMES: "one unreadable frame after another",
    events.CLOSE_UNAUTHENTICATED: "the session or key is no longer valid",
    events.CLOSE_FORBIDDEN: "the Origin may not use a session here",
    events.CLOSE_IDLE: "nothing was asked for a long time",
    events.CLOSE_TOO_MANY: "too many connections or frames",
    1009: "the frame is larger than the server reads",
    events.CLOSE_GOING_AWAY: "the server stops: connect again and resume",
    events.CLOSE_TRY_LATER: "the client reads too slowly, or the database fails: connect again and resume",
}


def asyncapi() -> dict[str, Any]:
    """The AsyncAPI document of the WebSocket."""
    _, components = msgspec.json.schema_components(
        [client_events.ClientMessage, events.ServerMessage, *set(REPORTS.values())],
        ref_template="#/components/schemas/{name}",
    )
    messages = {
        _tag(kind): {
            "name": _tag(kind),
            "summary": _summary(kind),
            "payload": {"$ref": f"#/components/schemas/{kind.__name__}"},
        }
        for kind in (*TO_SERVER, *TO_CLIENT)
    }

    def operation(action: str, kinds: tuple[type[msgspec.Struct], ...]) -> dict[str, Any]:
        references = [{"$ref": f"#/channels/socket/messages/{_tag(kind)}"} for kind in kinds]
        return {"action": action, "channel": {"$ref": "#/channels/socket"}, "messages": references}

    return {
        "asyncapi": "3.0.0",
        "info": {"title": "webtrace", "version": "1", "description": inspect.getdoc(events) or ""},
        "channels": {"socket": {"address": "/ws/v1/", "messages": messages}},
        "operations": {"ask": operation("receive", TO_SERVER), "tell": operation("send", TO_CLIENT)},
        "components": {"schemas": components},
    }


def document() -> str:
    """docs/protocol.md: the same for people."""
    parts = [_HEAD, _HTTP, "## Client to server\n", *map(_section, TO_SERVER)]
    parts += ["## Server to client\n", _EVENTS, *map(_section, TO_CLIENT), _ends(), _closes()]
    parts += ["## Views\n", _VIEWS + _views()]
    parts += ["## What the stages report\n", _REPORTS, *map(_stage, STAGES)]
    shown = {kind for kind in REPORTS.values()}
    nested = [kind for kind in _named_in([*TO_SERVER, *TO_CLIENT, *shown]) if kind not in {*TO_SERVER, *TO_CLIENT}]
    parts += ["## Types\n", *(_section(kind, heading=kind.__name__) for kind in nested)]
    return "\n".join(parts).rstrip() + "\n"


_HEAD = """# The wire

Generated from `webtrace/client_events.py`, `webtrace/events.py`, the reports that
`webtrace/reporting/stage_reports.py` names and `inference/query.py` by `manage.py protocol`; change those and run it
again. The same as AsyncAPI with JSON Schema: `GET /api/v1/schema`.

The WebSocket is at `/ws/v1/`. Frames are JSON text. A browser sends its session cookie and an exact `Origin`; a program
sends `Authorization: Bearer <key>`. A frame that cannot be read gets an `error` that names the field, and the
connection lives on. A readable `response.create` always becomes a response, even when the gateway refuses it.
"""
_HTTP = """## HTTP

By session (writes need the `csrftoken` cookie's value as `X-CSRFToken`) or by key. Errors are
`{"error": {code, message, field?, retry_after?}}`. What is not yours does not exist: 404. Views, pages of events and
exports are readings, of which a user, and a share link at one address, has so many a minute; past them: 429.

- `GET /api/v1/me`: who is asking, and what they may still ask for in this hour.
- `GET /api/v1/conversations?search=&before=&limit=`: `{conversations, next}`, newest first; `next` is the `before`
  of the next page.
- `GET`, `PATCH {title?, instructions?}`, `DELETE /api/v1/conversations/<id>`: one, with its tree of messages.
- `GET /api/v1/conversations/<id>/export`: the same as a file.
- `GET /api/v1/responses?search=&limit=`: `{responses, more}`, the newest that have ended with at least one token;
  `prompt` and `text` are their first 200 characters, `more` says that older ones match.
- `GET /api/v1/responses/<id>`: the record of a response; `breakpoints` are those that it has, and `held` says at
  which it stands, and for how many seconds yet.
- `GET /api/v1/responses/<id>/events?epoch=&after=`: `{events, finished}`, a page of its log after that place.
- `GET /api/v1/responses/<id>/views/<slug>?layer=&head=&position=&step=&…`: a look inside, see [Views](#views). 503
  with `Retry-After` when no worker answers in time.
- `PUT /api/v1/responses/<id>/feedback {rating, comment}`: 1, -1, or null to take it back.
- `GET`, `PUT`, `DELETE /api/v1/responses/<id>/share`: `{path}` of the read-only page for whoever has the link (null:
  none), made by `PUT`, taken back by `DELETE`. Only what has ended, and was not declined, can be shared.
- `GET /api/v1/responses/<id>/export`: the trace as one JSON file; its JSON Schema is at `GET /api/v1/schema/trace`.
- `GET /api/v1/shared/<token>`, `…/events`, `…/views/<slug>`, `…/export`: the same as above for whoever has the link,
  without what tells who asked.
- `GET /v1/models`, `POST /v1/chat/completions`: as OpenAI's clients expect them, by key. What is not supported is
  refused by name.
"""
_VIEWS = """A view is safetensors bytes with float32 and int32 tensors; the structured part is JSON under the metadata
key `view`. Layers, heads, positions and steps count from 0; a `step` stands for the position whose logits chose that
step's token, and without either a view shows step 0's. A parameter that a view does not take, or a value out of range,
is a 400 that names the field and the limit.

A view of a recording says where its numbers come from. `provenance` is `derived` (from what the run recorded) or
`rebuilt` (recomputed from the stored token ids because the recording is no longer held). `exactness` gives the kernel
and the tolerance: how far a number may lie from the run's own, as a share of the largest of its kind. A rebuilt view's
`agreement` compares the answer's log-probabilities with the recorded ones: how many, and the largest difference.

| view | shows | takes |
| --- | --- | --- |
"""
_EVENTS = """Every event of a response bears `response_id`, `epoch` and `sequence_number`. Numbers are consecutive
within an epoch and begin at 1; epochs count attempts, 0 being the gateway's. A hole that no `trace.dropped` covers is
a loss: send `response.resume` with the last `epoch` and number seen, or read `GET /api/v1/responses/<id>/events`.
"""
_REPORTS = """The `data` of each `trace.stage` event. Fields that end in `_ms` are milliseconds, in `_s` seconds.
"""


def _section(kind: type[msgspec.Struct], heading: str | None = None) -> str:
    lines = [f"### `{heading or _tag(kind)}`\n"]
    if summary := _summary(kind):
        lines.append(f"{summary}\n")
    lines.append(_fields(kind))
    return "\n".join(lines)


def _stage(stage: Any) -> str:
    kind = REPORTS[stage.slug]
    number = "–" if stage.number is None else stage.number
    return f"- {number} `{stage.slug}`: `{kind.__name__}`"


def _fields(kind: type[msgspec.Struct]) -> str:
    hints = get_type_hints(kind)
    rows = ["| field | type | default |", "| --- | --- | --- |"]
    for field in msgspec.structs.fields(kind):
        rows.append(f"| `{field.name}` | {_type(hints[field.name])} | {_default(field)} |")
    return "\n".join(rows) + "\n" if len(rows) > 2 else "No fields.\n"


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    value = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    return f"`{msgspec.json.encode(value).decode()}`"


def _type(hint: Any) -> str:
    """A type as a reader of JSON would say it."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (types.UnionType, Union):
        return " or ".join(_type(argument) for argument in arguments)
    if origin is Literal:
        return " or ".join(f"`{msgspec.json.encode(argument).decode()}`" for argument in arguments)
    if origin is list:
        return f"list of {_type(arguments[0])}"
    if origin is tuple:
        return "[" + ", ".join(_type(argument) for argument in arguments) + "]"
    if origin is dict:
        return f"object of {_type(arguments[1])}"
    names = {str: "text", int: "whole number", float: "number", bool: "true or false", types.NoneType: "null"}
    if hint in names:
        return names[hint]
    return "anything" if hint is Any else f"`{hint.__name__}`"


def _views() -> str:
    rows = [
        f"| `{slug}` | {asked.shows} | {', '.join(f'`{name}`' for name in asked.parameters)} |"
        for slug, asked in ASKED.items()
    ]
    return "\n".join([*rows, ""])


def _ends() -> str:
    rows = [f"| `{_tag(kind)}` | {_summary(kind) or 'see its `finish_reason`'} |" for kind in get_args(events.End)]
    return "\n".join(
        ["### The ends\n", "Exactly one of them closes a response.\n", "| end | |", "| --- | --- |", *rows, ""]
    )


def _closes() -> str:
    rows = [f"| {code} | {why} |" for code, why in sorted(CLOSE_CODES.items())]
    return "\n".join(["### Close codes\n", "| code | why |", "| --- | --- |", *rows, ""])


def _named_in(kinds: list[type[msgspec.Struct]]) -> list[type[msgspec.Struct]]:
    """These structs and those inside them, each once, by name."""
    found: dict[str, type[msgspec.Struct]] = {}

    def visit(hint: Any) -> None:
        for argument in get_args(hint):
            visit(argument)
        if inspect.isclass(hint) and issubclass(hint, msgspec.Struct) and hint.__name__ not in found:
            found[hint.__name__] = hint
            for inner in get_type_hints(hint).values():
                visit(inner)

    for kind in kinds:
        visit(kind)
    return [found[name] for name in sorted(found)]


def _tag(kind: type[msgspec.Struct]) -> str:
    return str(kind.__struct_config__.tag)


def _summary(kind: type[msgspec.Struct]) -> str:
    """The docstring's text on one line; structs without one inherit their parent's, which says nothing new."""
    own = kind.__doc__ if kind.__doc__ and "__doc__" in vars(kind) else None
    return " ".join(own.split()) if own else ""
