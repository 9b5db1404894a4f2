"""What a view says beside its numbers, and the texts of tokens in it: the engine answers in ids alone."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any

from inference.text import Tokenizer

_LENGTH = struct.Struct("<Q")


def info_of(body: bytes) -> dict[str, Any]:
    """The JSON part of a view."""
    header, _ = _parts(body)
    info: dict[str, Any] = json.loads(header["__metadata__"]["view"])
    return info


def with_token_texts(body: bytes, tokenizer: Tokenizer) -> bytes:
    """A view with `token_texts` {id: text} added to its JSON part, for every id that stands in it.

    An id is what a name `token` or one ending in `_ids` holds.
    """
    header, numbers = _parts(body)
    info = json.loads(header["__metadata__"]["view"])
    info["token_texts"] = {str(token): tokenizer.token_text(token) for token in sorted(set(_ids(info)))}
    header["__metadata__"]["view"] = json.dumps(info, ensure_ascii=False)
    text = json.dumps(header, ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)  # the format keeps the numbers aligned
    return _LENGTH.pack(len(text)) + text + numbers


def _parts(body: bytes) -> tuple[dict[str, Any], bytes]:
    """Header and numbers of safetensors: eight bytes of header length, the header as JSON, the numbers."""
    (length,) = _LENGTH.unpack_from(body)
    end = _LENGTH.size + length
    return json.loads(body[_LENGTH.size : end]), body[end:]


def _ids(value: Any, name: str = "") -> Iterator[int]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _ids(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from _ids(inner, name)
    elif isinstance(value, int) and not isinstance(value, bool) and (name == "token" or name.endswith("_ids")):
        yield value
