"""Reads GGUF files: metadata to a ModelConfig, tensors to canonical names. Never imports torch."""

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from inference.checkpoint.four_bit_blocks import UNPACK
from inference.checkpoint.gguf_config import ADJACENT, read_config
from inference.checkpoint.unsupported import UnsupportedCheckpoint
from inference.checkpoint.weights import Float32, FourBit, in_adjacent_pairs

_LAYER_NAMES = {
    "attn_norm": "attention_norm",
    "attn_q": "q",
    "attn_k": "k",
    "attn_v": "v",
    "attn_q_norm": "q_norm",
    "attn_k_norm": "k_norm",
    "attn_output": "output",
    "post_attention_norm": "attention_post_norm",
    "ffn_norm": "feed_forward_norm",
    "ffn_gate": "gate",
    "ffn_up": "up",
    "ffn_down": "down",
    "post_ffw_norm": "feed_forward_post_norm",
}
_TOP_NAMES = {"token_embd.weight": "embedding", "output_norm.weight": "final_norm", "output.weight": "head"}
_DIVISORS = "rope_freqs.weight"
LONGEST_ARRAY = 1024


class _QuickReader(gguf.GGUFReader):  # type: ignore[misc]
    """Steps over long arrays: parsing the tokenizer's lists, which only `inference.text` reads, takes seconds."""

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


class GGUFFile:
    """A GGUF file, memory-mapped; tensors are converted when asked for."""

    def __init__(self, path: Path) -> None:
        try:
            self._reader = _QuickReader(path)
        except (ValueError, KeyError, IndexError, struct.error) as error:
            raise UnsupportedCheckpoint(f"{path.name} is not a readable GGUF file: {error}") from error
        if (self._field("split.count") or 0) > 1:
            raise UnsupportedCheckpoint("a GGUF file in parts")
        stored = {tensor.name: tensor for tensor in self._reader.tensors}
        _refuse_unread_kinds(stored.values())
        listed = stored.pop(_DIVISORS, None)
        self._tensors = {_canonical(name): tensor for name, tensor in stored.items()}
        # The reader lists dimensions from the fastest on.
        self.shapes = {name: tuple(map(int, reversed(tensor.shape.tolist()))) for name, tensor in self._tensors.items()}
        self.config = read_config(
            self._field,
            self._tensors.keys(),
            vocabulary=self.shapes.get("embedding", (0,))[0],
            divisors=None if listed is None else listed.data.tolist(),
        )
        self.name = path.stem  # people know a checkpoint by its file; `general.name` is often a training run's title

    def tensor(self, name: str) -> Float32:
        """See WeightSource.tensor."""
        stored = self._tensors[name]
        # A copy, for what is float32 already would else be a read-only view of the file.
        rows = np.array(gguf.dequantize(stored.data, stored.tensor_type), dtype=np.float32)
        return rows if self.config.architecture in ADJACENT else in_adjacent_pairs(rows, name, self.config)

    def four_bit(self, name: str) -> FourBit | None:
        """See WeightSource.four_bit."""
        stored = self._tensors[name]
        unpack = UNPACK.get(stored.tensor_type)
        if unpack is None:
            return None
        packed = unpack(stored.data)
        return packed if self.config.architecture in ADJACENT else in_adjacent_pairs(packed, name, self.config)

    def _field(self, key: str) -> Any:
        field = self._reader.get_field(key)
        return None if field is None else field.contents()


def _refuse_unread_kinds(tensors: Iterable[gguf.ReaderTensor]) -> None:
    """Tries one row of each kind of packing."""
    for kind, tensor in {tensor.tensor_type: tensor for tensor in tensors}.items():
        try:
            gguf.dequantize(np.atleast_2d(tensor.data)[:1], kind)
        except NotImplementedError as error:
            raise UnsupportedCheckpoint(f"tensor {tensor.name} in {kind.name}") from error


def _canonical(name: str) -> str:
    """`blk.3.attn_q.weight` -> `layers.3.q`; a tensor we would ignore is a feature we lack."""
    if name in _TOP_NAMES:
        return _TOP_NAMES[name]
    parts = name.split(".")
    if len(parts) == 4 and parts[0] == "blk" and parts[2] in _LAYER_NAMES and parts[3] in ("weight", "bias"):
        return f"layers.{parts[1]}.{_LAYER_NAMES[parts[2]]}" + (".bias" if parts[3] == "bias" else "")
    raise UnsupportedCheckpoint(f"tensor {name}")
