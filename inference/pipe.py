"""Messages as frames on a pipe: four bytes of length (little-endian), then MessagePack."""

from __future__ import annotations

import asyncio
import struct
from typing import BinaryIO

import msgspec

from inference.messages import FromEngine, ToEngine

LENGTH = struct.Struct("<I")
_encoder = msgspec.msgpack.Encoder()
_to_engine = msgspec.msgpack.Decoder(ToEngine)
_from_engine: msgspec.msgpack.Decoder[FromEngine] = msgspec.msgpack.Decoder(FromEngine)


def encode(message: ToEngine | FromEngine) -> bytes:
    """One frame."""
    body = _encoder.encode(message)
    return LENGTH.pack(len(body)) + body


def read_request(pipe: BinaryIO) -> ToEngine | None:
    """The next message for the engine, waiting for it; None at the end of the pipe."""
    head = pipe.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    body = pipe.read(length)
    return _to_engine.decode(body) if len(body) == length else None


async def read_reply(pipe: asyncio.StreamReader) -> FromEngine | None:
    """The next message from the engine; None at the end of the pipe, also in the middle of a frame."""
    try:
        (length,) = LENGTH.unpack(await pipe.readexactly(LENGTH.size))
        return _from_engine.decode(await pipe.readexactly(length))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
