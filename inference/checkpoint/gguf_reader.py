"""Reads GGUF metadata fast. Never imports torch.

The format's own reader makes several objects of each item of a list: of a tokenizer's hundred thousands that takes
seconds.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from inference.checkpoint.unsupported import UnsupportedCheckpoint

LONGEST_ARRAY = 1024


class QuickReader(gguf.GGUFReader):  # type: ignore[misc]
    """Steps over long arrays until one is asked for."""

    def value(self, key: str) -> Any:
        """A metadata field, None where the file does not state it."""
        field = self.get_field(key)
        if field is None:
            return None
        if field.types[:1] != [gguf.GGUFValueType.ARRAY] or len(field.types) > 1 or field.data:
            return field.contents()
        # A field is the length of its key, the key, a type, and here the array.
        return self._array(field.offset + struct.calcsize("<QI") + len(key.encode()))

    def _get_field_parts(self, orig_offs: int, raw_type: int) -> tuple[int, list[Any], list[int], list[Any]]:
        """Size of the field's value, its parts, which of these hold data, its types; no parts for a long array."""
        if raw_type == gguf.GGUFValueType.ARRAY:
            item_type, length = struct.unpack_from("<IQ", self.data, orig_offs)
            if length > LONGEST_ARRAY:
                end = self._end_of_array(orig_offs + struct.calcsize("<IQ"), gguf.GGUFValueType(item_type), length)
                return end - orig_offs, [], [], [gguf.GGUFValueType.ARRAY]
        parts: tuple[int, list[Any], list[int], list[Any]] = super()._get_field_parts(orig_offs, raw_type)
        return parts

    def _end_of_array(self, offset: int, item_type: gguf.GGUFValueType, length: int) -> int:
        if item_type != gguf.GGUFValueType.STRING:
            return int(offset + length * np.dtype(self.gguf_scalar_to_np[item_type]).itemsize)
        for _ in range(length):
            offset += 8 + struct.unpack_from("<Q", self.data, offset)[0]
        return offset

    def _array(self, offset: int) -> list[Any]:
        item_type, length = struct.unpack_from("<IQ", self.data, offset)
        offset += struct.calcsize("<IQ")
        if item_type != gguf.GGUFValueType.STRING:
            numbers: list[Any] = np.frombuffer(self.data, self.gguf_scalar_to_np[item_type], length, offset).tolist()
            return numbers
        texts = []
        data = memoryview(self.data)
        for _ in range(length):
            start = offset + 8
            offset = start + struct.unpack_from("<Q", data, offset)[0]
            texts.append(str(data[start:offset], "utf-8"))
        return texts


def open_gguf(path: Path) -> QuickReader:
    """Raises UnsupportedCheckpoint."""
    try:
        return QuickReader(path)
    except (ValueError, KeyError, IndexError, struct.error) as error:
        raise UnsupportedCheckpoint(f"{path.name} is not a readable GGUF file: {error}") from error
