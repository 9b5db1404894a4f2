"""Reads Hugging Face folders: config.json and safetensors, in one file or in shards."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import safetensors

from inference.checkpoint.config import ModelConfig, UnsupportedCheckpoint
from inference.checkpoint.weights import Float32, FourBit, adjacent_pairs

_LAYER_NAMES = {
    "input_layernorm": "attention_norm",
    "self_attn.q_proj": "q",
    "self_attn.k_proj": "k",
    "self_attn.v_proj": "v",
    "self_attn.o_proj": "output",
    "post_attention_layernorm": "feed_forward_norm",
    "mlp.gate_proj": "gate",
    "mlp.up_proj": "up",
    "mlp.down_proj": "down",
}
_TOP_NAMES = {
    "model.embed_tokens.weight": "embedding",
    "model.norm.weight": "final_norm",
    "lm_head.weight": "head",
}


class HuggingFaceFolder:
    """A folder with config.json and *.safetensors. Tensors are read when asked for."""

    def __init__(self, folder: Path) -> None:
        self._stored: dict[str, tuple[Path, str]] = {}
        for file in weight_files(folder):
            with safetensors.safe_open(file, framework="pt") as opened:
                for name in opened.keys():  # noqa: SIM118 - not a dictionary
                    self._stored[_canonical(name)] = (file, name)
        self.config = _read_config(json.loads((folder / "config.json").read_text()), self._stored)
        self.name = folder.name

    def tensor(self, name: str) -> Float32:
        """See WeightSource.tensor."""
        file, stored_name = self._stored[name]
        # Through torch, because numpy has no bfloat16.
        with safetensors.safe_open(file, framework="pt") as opened:
            rows = np.asarray(opened.get_tensor(stored_name).float().numpy(), dtype=np.float32)
        if name.endswith(".q"):
            return adjacent_pairs(rows, self.config.n_heads)
        if name.endswith(".k"):
            return adjacent_pairs(rows, self.config.n_kv_heads)
        return rows

    def four_bit(self, name: str) -> FourBit | None:
        """Always None: such folders hold 16 or 32 bits a weight."""
        return None


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a folder in a fixed order; the index, where there is one, decides."""
    index = folder / "model.safetensors.index.json"
    if index.exists():
        files = [folder / name for name in sorted(set(json.loads(index.read_text())["weight_map"].values()))]
    else:
        files = sorted(folder.glob("*.safetensors"))
    missing = [file.name for file in files if not file.exists()]
    if missing or not files:
        raise UnsupportedCheckpoint(f"{folder.name}: weights missing: {', '.join(missing) or '*.safetensors'}")
    return files


def _canonical(name: str) -> str:
    if name in _TOP_NAMES:
        return _TOP_NAMES[name]
    layer, _, rest = name.removeprefix("model.layers.").partition(".")
    if layer.isdigit() and rest.removesuffix(".weight") in _LAYER_NAMES and rest.endswith(".weight"):
        return f"layers.{layer}.{_LAYER_NAMES[rest.removesuffix('.weight')]}"
    raise UnsupportedCheckpoint(f"tensor {name}")


def _read_config(stated: dict[str, Any], stored: dict[str, Any]) -> ModelConfig:
    architecture = stated.get("model_type")
    if architecture != "llama":
        raise UnsupportedCheckpoint(f"architecture {architecture!r}; only llama is supported")
    # Newer files keep everything rotary in one dictionary, older ones beside the other fields.
    rope = stated.get("rope_parameters") or stated.get("rope_scaling") or {}
    if rope.get("rope_type", rope.get("type", "default")) != "default":
        raise UnsupportedCheckpoint("scaled rotary positions")
    if stated.get("hidden_act", "silu") != "silu":
        raise UnsupportedCheckpoint(f"activation {stated['hidden_act']!r}")
    n_heads = stated["num_attention_heads"]
    tied = stated.get("tie_word_embeddings", False)
    if not tied and "head" not in stored:
        raise UnsupportedCheckpoint("the output head is not tied to the embedding, and lm_head.weight is missing")
    return ModelConfig(
        architecture=architecture,
        n_layers=stated["num_hidden_layers"],
        n_heads=n_heads,
        n_kv_heads=stated.get("num_key_value_heads") or n_heads,
        head_width=stated.get("head_dim") or stated["hidden_size"] // n_heads,
        width=stated["hidden_size"],
        feed_forward_width=stated["intermediate_size"],
        vocabulary=stated["vocab_size"],
        context_length=stated["max_position_embeddings"],
        rope_base=float(rope.get("rope_theta") or stated.get("rope_theta", 10000.0)),
        rms_epsilon=float(stated["rms_norm_eps"]),
        tied_head=tied,
    )
