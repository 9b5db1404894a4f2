"""Reads Hugging Face folders: config.json and safetensors, in one file or in shards."""

import json
from pathlib import Path

import numpy as np
import safetensors

from inference.checkpoint.huggingface_config import read_config
from inference.checkpoint.unsupported import UnsupportedCheckpoint
from inference.checkpoint.weights import Float32, FourBit, in_adjacent_pairs

_LAYER_NAMES = {
    "input_layernorm": "attention_norm",
    "self_attn.q_proj": "q",
    "self_attn.k_proj": "k",
    "self_attn.v_proj": "v",
    "self_attn.q_norm": "q_norm",
    "self_attn.k_norm": "k_norm",
    "self_attn.o_proj": "output",
    "post_attention_layernorm": "feed_forward_norm",
    "mlp.gate_proj": "gate",
    "mlp.up_proj": "up",
    "mlp.down_proj": "down",
}
_POST_NORM_NAMES = {
    "post_attention_layernorm": "attention_post_norm",
    "pre_feedforward_layernorm": "feed_forward_norm",
    "post_feedforward_layernorm": "feed_forward_post_norm",
}
"""In models that also normalise updates, one of the names above means another norm."""
_TOP_NAMES = {
    "model.embed_tokens.weight": "embedding",
    "model.norm.weight": "final_norm",
    "lm_head.weight": "head",
}
_INDEX = "model.safetensors.index.json"


class HuggingFaceFolder:
    """A folder with config.json and *.safetensors. Tensors are read when asked for."""

    def __init__(self, folder: Path) -> None:
        self.name = folder.name
        self.config = read_config(folder / "config.json")
        self._stored: dict[str, tuple[Path, str]] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        for file in weight_files(folder):
            self._list(file)

    def _list(self, file: Path) -> None:
        with _open(file, "numpy") as opened:
            for stored_name in opened.keys():  # noqa: SIM118 - not a dictionary
                if stored_name.endswith(".rotary_emb.inv_freq"):
                    continue  # older files keep what follows from config.json
                name = self._canonical(stored_name)
                if name == "head" and self.config.tied_head:
                    continue  # a second copy of the embedding
                self._stored[name] = (file, stored_name)
                self.shapes[name] = tuple(opened.get_slice(stored_name).get_shape())

    def _canonical(self, stored_name: str) -> str:
        if stored_name in _TOP_NAMES:
            return _TOP_NAMES[stored_name]
        layer, _, rest = stored_name.removeprefix("model.layers.").partition(".")
        part, _, kind = rest.rpartition(".")
        known = _LAYER_NAMES | (_POST_NORM_NAMES if self.config.post_norm else {})
        if not layer.isdigit() or part not in known or kind not in ("weight", "bias"):
            raise UnsupportedCheckpoint(f"tensor {stored_name}")
        return f"layers.{layer}.{known[part]}" + (".bias" if kind == "bias" else "")

    def tensor(self, name: str) -> Float32:
        """See WeightSource.tensor."""
        file, stored_name = self._stored[name]
        # Through torch, because numpy has no bfloat16.
        with _open(file, "pt") as opened:
            rows = np.asarray(opened.get_tensor(stored_name).float().numpy(), dtype=np.float32)
        if self.config.architecture == "gemma3" and name.endswith("norm"):
            rows = rows + 1  # kept as the difference from 1
        return in_adjacent_pairs(rows, name, self.config)

    def four_bit(self, name: str) -> FourBit | None:
        """Always None: such folders hold 16 or 32 bits a weight."""
        return None


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a folder in a fixed order; the index, where there is one, decides."""
    index = folder / _INDEX
    files = [folder / name for name in _indexed(index)] if index.exists() else sorted(folder.glob("*.safetensors"))
    missing = [file.name for file in files if not file.exists()]
    if missing or not files:
        raise UnsupportedCheckpoint(f"{folder.name}: weights missing: {', '.join(missing) or '*.safetensors'}")
    return files


def _indexed(index: Path) -> list[str]:
    try:
        return sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnsupportedCheckpoint(f"{index.name} does not map tensors to files: {error}") from error


def _open(file: Path, framework: str) -> safetensors.safe_open:
    try:
        return safetensors.safe_open(file, framework=framework)
    except safetensors.SafetensorError as error:
        raise UnsupportedCheckpoint(f"{file.name} is not a readable safetensors file: {error}") from error
