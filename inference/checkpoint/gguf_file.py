"""Reads GGUF files: metadata to a ModelConfig, tensors to canonical names. Never imports torch."""

import struct
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from inference.checkpoint.config import ModelConfig, UnsupportedCheckpoint
from inference.checkpoint.weights import GROUP, Float32, FourBit

_LAYER_NAMES = {
    "attn_norm": "attention_norm",
    "attn_q": "q",
    "attn_k": "k",
    "attn_v": "v",
    "attn_output": "output",
    "ffn_norm": "feed_forward_norm",
    "ffn_gate": "gate",
    "ffn_up": "up",
    "ffn_down": "down",
}
LONGEST_ARRAY = 1024
_TOP_NAMES = {"token_embd.weight": "embedding", "output_norm.weight": "final_norm", "output.weight": "head"}


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
    """A GGUF file, memory-mapped; tensors are converted when asked for.

    Only the Llama architecture is known, whose q and k rows GGUF keeps in adjacent-pair order already.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._reader = _QuickReader(path)
        except (ValueError, KeyError, IndexError, struct.error) as error:
            raise UnsupportedCheckpoint(f"{path.name} is not a readable GGUF file: {error}") from error
        self._tensors = {_canonical(tensor.name): tensor for tensor in self._reader.tensors}
        self.config = self._read_config()
        self.name = path.stem  # people know a checkpoint by its file; `general.name` is often a training run's title

    def tensor(self, name: str) -> Float32:
        """See WeightSource.tensor."""
        stored = self._tensors[name]
        # A copy, for what is float32 already would else be a read-only view of the file.
        return np.array(gguf.dequantize(stored.data, stored.tensor_type), dtype=np.float32)

    def four_bit(self, name: str) -> FourBit | None:
        """See WeightSource.four_bit."""
        stored = self._tensors[name]
        if stored.tensor_type == gguf.GGMLQuantizationType.Q4_1:
            return _unpack(stored.data, header_halves=2)
        if stored.tensor_type == gguf.GGMLQuantizationType.Q4_0:
            return _unpack(stored.data, header_halves=1)
        return None

    def _field(self, key: str, default: Any = None) -> Any:
        field = self._reader.get_field(key)
        if field is None:
            if default is None:
                raise UnsupportedCheckpoint(f"metadata field {key} is missing")
            return default
        return field.contents()

    def _read_config(self) -> ModelConfig:
        architecture = self._field("general.architecture")
        if architecture != "llama":
            raise UnsupportedCheckpoint(f"architecture {architecture!r}; only llama is supported")
        if self._field("llama.rope.scaling.type", "none") != "none" or "rope_freqs" in self._tensors:
            raise UnsupportedCheckpoint("scaled rotary positions")
        if self._field("llama.expert_count", 0):
            raise UnsupportedCheckpoint("mixture of experts")
        n_heads = self._field("llama.attention.head_count")
        width = self._field("llama.embedding_length")
        head_width = self._field("llama.attention.key_length", width // n_heads)
        if self._field("llama.rope.dimension_count", head_width) != head_width:
            raise UnsupportedCheckpoint("rotary positions on a part of the head only")
        return ModelConfig(
            architecture=architecture,
            n_layers=self._field("llama.block_count"),
            n_heads=n_heads,
            n_kv_heads=self._field("llama.attention.head_count_kv", n_heads),
            head_width=head_width,
            width=width,
            feed_forward_width=self._field("llama.feed_forward_length"),
            vocabulary=int(self._tensors["embedding"].shape[1]),
            context_length=self._field("llama.context_length"),
            rope_base=float(self._field("llama.rope.freq_base", 10000.0)),
            rms_epsilon=float(self._field("llama.attention.layer_norm_rms_epsilon")),
            tied_head="head" not in self._tensors,
        )


def _canonical(name: str) -> str:
    """`blk.3.attn_q.weight` -> `layers.3.q`; a tensor we would ignore is a feature we lack."""
    if name in _TOP_NAMES:
        return _TOP_NAMES[name]
    if name == "rope_freqs.weight":
        return "rope_freqs"
    parts = name.split(".")
    if len(parts) == 4 and parts[0] == "blk" and parts[3] == "weight" and parts[2] in _LAYER_NAMES:
        return f"layers.{parts[1]}.{_LAYER_NAMES[parts[2]]}"
    raise UnsupportedCheckpoint(f"tensor {name}")


def _unpack(data: Any, *, header_halves: int) -> FourBit:
    """Splits Q4_0 (scale, codes) or Q4_1 (scale, minimum, codes) blocks.

    A block holds 32 weights in 16 bytes: low nibbles are weights 0-15, high nibbles 16-31. Q4_0 has no
    minimum of its own: its codes are centred on 8.
    """
    out = data.shape[0]
    blocks = data.reshape(out, -1, 2 * header_halves + GROUP // 2)
    header = np.ascontiguousarray(blocks[..., : 2 * header_halves]).view(np.float16).astype(np.float32)
    nibbles = blocks[..., 2 * header_halves :]
    codes = np.concatenate([nibbles & 15, nibbles >> 4], axis=-1).reshape(out, -1)
    scales = header[..., 0]
    minimums = header[..., 1] if header_halves == 2 else -8 * scales
    return FourBit(np.ascontiguousarray(codes), np.ascontiguousarray(scales), np.ascontiguousarray(minimums))
