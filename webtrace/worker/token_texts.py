"""Puts the texts of tokens beside their ids in a view: the engine answers in ids alone."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any

from inference.text import Tokenizer

_LENGTH = struct.Struct("<Q")


def with_token_texts(body: bytes, tokenizer: Tokenizer) -> bytes:
    """A view with `token_texts` {id: text} added to its JSON part, for every id that stands in it.

    `body` is safetensors: eight bytes of header length, the header as JSON, the numbers. An id is what a name `token`
    or one ending in `_ids` holds.
    """
    (length,) = _LENGTH.unpack_from(body)
    header = json.loads(body[_LENGTH.size : _LENGTH.size + length])
    info = json.loads(header["__metadata__"]["view"])
    info["token_texts"] = {str(token): tokenizer.token_text(token) for token in sorted(set(_ids(info)))}
    header["__metadata__"]["view"] = json.dumps(info, ensure_ascii=False)
    text = json.dumps(header, ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)  # the format keeps the numbers aligned
    return _LENGTH.pack(len(text)) + text + body[_LENGTH.size + length :]


def _ids(value: Any, name: str = "") -> Iterator[int]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _ids(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from _ids(inner, name)
    elif isinstance(value, int) and not isinstance(value, bool) and (name == "token" or name.endswith("_ids")):
        yield value
