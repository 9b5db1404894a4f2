"""Reads a client's JSON as a typed message, or says which field is wrong."""

from __future__ import annotations

import json
import math
import re
from typing import Any, TypeVar

import msgspec
from django.conf import settings

from webtrace.client_events import ClientMessage
from webtrace.events import SocketError

T = TypeVar("T")

MAX_EVENT_ID = 100
MAX_NAME = 200
_decoder = msgspec.json.Decoder(ClientMessage)
_PATH = re.compile(r" - at `(?:key` in `)?\$\.?([^`]*)`$")
_UNKNOWN = re.compile(r"(?:unknown|required) field `([^`]*)`")
# Text that JSON can spell and that can be neither encoded nor stored: lone surrogates and NUL. Cheap to look for.
_SUSPECT = re.compile(r"\\u(?:d[89a-f]|0000)|\x00", re.IGNORECASE)
_SURROGATE = re.compile("[\ud800-\udfff]")


class UnreadableFrame(Exception):
    """The frame is no message. `error` is what the client is told."""

    def __init__(self, code: str, message: str, field: str | None = None, event_id: str | None = None) -> None:
        super().__init__(message)
        self.error = SocketError(code, message, field, event_id)


def read_frame(text: str) -> ClientMessage:
    """The message of a text frame. Raises UnreadableFrame."""
    size = len(text.encode())
    if size > settings.MAX_FRAME_BYTES:
        limit = settings.MAX_FRAME_BYTES
        message = f"The frame has {size:,} bytes; at most {limit:,} are allowed."
        raise UnreadableFrame("too_large", message, None, _event_id(text))
    read = decode(text, _decoder)
    _check_names(read)
    return read


def decode(text: str, decoder: msgspec.json.Decoder[T]) -> T:
    """JSON text as the decoder's type. Raises UnreadableFrame."""
    if _SUSPECT.search(text):
        _refuse_unstorable(text)
    try:
        return decoder.decode(text)
    except msgspec.ValidationError as error:
        raise UnreadableFrame("invalid_value", *_explain(error), _event_id(text)) from None
    except (msgspec.DecodeError, RecursionError) as error:
        _refuse_unstorable(text)  # NaN is the usual reason, and then the field can be named
        raise UnreadableFrame("invalid_json", f"This is not valid JSON: {error}.") from None


def _explain(error: msgspec.ValidationError) -> tuple[str, str | None]:
    """A validation error as (message, field): `Expected `str`, got `int` - at `$.input``."""
    text = str(error)[:500]
    path = match[1] if (match := _PATH.search(text)) else ""
    reason = _PATH.sub("", text)
    if named := _UNKNOWN.search(reason):
        path = f"{path}.{named[1]}" if path else named[1]
    elif not path:
        return f"{reason}.", None
    return f"{path}: {reason}.", path


def first_unstorable(value: Any, path: str = "") -> tuple[str, str] | None:
    """The path of the first value that JSON can spell but nobody can keep, and what it is; null if there is none."""
    if isinstance(value, str):
        if "\x00" in value:
            return path, "the character U+0000"
        if _SURROGATE.search(value):
            return path, "a lone surrogate"
    elif isinstance(value, float) and not math.isfinite(value):
        return path, f"{value}"
    elif isinstance(value, dict):
        for key, item in value.items():
            if first_unstorable(key) is not None:
                return path, "an unreadable name"
            if (found := first_unstorable(item, f"{path}.{key}" if path else key)) is not None:
                return found
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if (found := first_unstorable(item, f"{path}[{index}]")) is not None:
                return found
    return None


def _refuse_unstorable(text: str) -> None:
    try:
        loaded = json.loads(text)
    except (ValueError, RecursionError):
        return  # the typed decoder says it better
    if (found := first_unstorable(loaded)) is not None:
        field, what = found
        name = field[:MAX_NAME]
        message = f"{name or 'The text'} must not hold {what}."
        raise UnreadableFrame("invalid_value", message, name or None, _event_id_of(loaded))


def _check_names(message: ClientMessage) -> None:
    """Names that are looked up or stored have their limits."""
    if not 1 <= len(message.event_id) <= MAX_EVENT_ID:
        raise UnreadableFrame(
            "invalid_value", f"event_id must have 1 to {MAX_EVENT_ID} characters, not {len(message.event_id)}.",
            "event_id",
        )  # fmt: skip
    for name in ("model", "conversation_id", "parent_id", "response_id"):
        value = getattr(message, name, None)
        if value is not None and not 1 <= len(value) <= MAX_NAME:
            raise UnreadableFrame(
                "invalid_value", f"{name} must have 1 to {MAX_NAME} characters, not {len(value)}.", name,
                message.event_id,
            )  # fmt: skip


def _event_id(text: str) -> str | None:
    try:
        return _event_id_of(json.loads(text))
    except (ValueError, RecursionError):
        return None


def _event_id_of(loaded: Any) -> str | None:
    found = loaded.get("event_id") if isinstance(loaded, dict) else None
    return found[:MAX_EVENT_ID] if isinstance(found, str) and first_unstorable(found) is None else None
