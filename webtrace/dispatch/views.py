"""What a worker leaves in the cache when it was asked for a view."""

from __future__ import annotations

import msgspec


class ViewResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """Either `body` (safetensors bytes) or why not: `code` "invalid_value" (with the field), "unavailable" (ask
    another worker or later) or "not_found"."""

    body: bytes | None = None
    code: str = ""
    message: str = ""
    field: str | None = None

    def pack(self) -> bytes:
        """As a value any cache can hold."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def unpack(cls, value: bytes) -> ViewResult:
        return msgspec.msgpack.decode(value, type=cls)
