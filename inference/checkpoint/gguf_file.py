"""Reads GGUF files: metadata to a ModelConfig, tensors to canonical names. Never imports torch."""

from collections.abc import Iterable
from pathlib import Path

import gguf
import numpy as np

from inference.checkpoint.four_bit_blocks import UNPACK
from inference.checkpoint.gguf_config import ADJACENT, read_config
from inference.checkpoint.gguf_reader import open_gguf
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


class GGUFFile:
    """A GGUF file, memory-mapped; tensors are converted when asked for."""

    def __init__(self, path: Path) -> None:
        self._reader = open_gguf(path)
        if (self._reader.value("split.count") or 0) > 1:
            raise UnsupportedCheckpoint("a GGUF file in parts")
        stored = {tensor.name: tensor for tensor in self._reader.tensors}
        _refuse_unread_kinds(stored.values())
        listed = stored.pop(_DIVISORS, None)
        self._tensors = {_canonical(name): tensor for name, tensor in stored.items()}
        # The reader lists dimensions from the fastest on.
        self.shapes = {name: tuple(map(int, reversed(tensor.shape.tolist()))) for name, tensor in self._tensors.items()}
        self.config = read_config(
            self._reader.value,
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
