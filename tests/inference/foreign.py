"""Tiny random models by another library, and GGUF files of the same weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from numpy.typing import NDArray

CONTEXT = 256


def make_model(architecture: str, **changes: Any) -> Any:
    """Random, but the same every time, norms and biases included."""
    import transformers

    stated = {
        "vocab_size": 97,
        "hidden_size": 48,
        "intermediate_size": 80,
        "num_hidden_layers": 3,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "max_position_embeddings": CONTEXT,
        "rope_parameters": {"rope_type": "default", "rope_theta": 5000.0},
        "rms_norm_eps": 1e-6,
        "initializer_range": 0.3,
        "pad_token_id": None,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    text = "Text" if architecture == "Gemma3" else ""
    config = getattr(transformers, f"{architecture}{text}Config")(**(stated | changes))
    torch.manual_seed(7)
    model = getattr(transformers, f"{architecture}ForCausalLM")(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * (0.2 if "norm" in name else 2.0))
    return model


def write_gguf(path: Path, architecture: str, model: Any, kind: gguf.GGMLQuantizationType | None = None) -> None:
    """As the format's own converter writes that architecture.

    With a `kind`, matrices are packed in it, and the model gets the weights that can be read back.
    """
    config = model.config
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    head_width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer.add_key_length(head_width)
    writer.add_value_length(head_width)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    if getattr(config, "sliding_window", None):
        writer.add_sliding_window(config.sliding_window)
    _write_rotary(writer, config, head_width)
    known = next(known for known, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture)
    names = gguf.get_tensor_name_map(known, config.num_hidden_layers)
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        rows = tensor.numpy()
        if kind is not None and rows.ndim == 2:
            rows = pack(rows, kind)
            tensor.copy_(torch.from_numpy(gguf.dequantize(rows, kind)))
        if architecture in ("llama", "smollm3") and ("q_proj" in name or "k_proj" in name):
            rows = _pairs_side_by_side(rows, head_width)
        if architecture == "gemma3" and "norm" in name:
            rows = rows + 1
        stored_name = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if kind is None or rows.ndim == 1:
            writer.add_tensor(stored_name, np.ascontiguousarray(rows))
        else:
            writer.add_tensor(stored_name, rows, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def pack(rows: NDArray[np.float32], kind: gguf.GGMLQuantizationType) -> NDArray[Any]:
    """The matrix in that kind; for those that the format's library only reads, random bytes with small scales."""
    try:
        packed: NDArray[Any] = gguf.quantize(rows, kind)
    except NotImplementedError:
        size, num_bytes = gguf.GGML_QUANT_SIZES[kind]
        blocks = np.random.default_rng(1).integers(0, 256, (rows.size // size, num_bytes)).astype(np.uint8)
        blocks[:, _SCALES[kind]] = np.full(len(_SCALES[kind]) // 2, 3e-4, np.float16).view(np.uint8)
        packed = blocks.reshape(len(rows), -1)
    return packed


_SCALES = {
    gguf.GGMLQuantizationType.Q4_K: [0, 1, 2, 3],
    gguf.GGMLQuantizationType.Q5_K: [0, 1, 2, 3],
    gguf.GGMLQuantizationType.Q6_K: [208, 209],
}
"""Which bytes of a block are scales in half precision."""


def _write_rotary(writer: gguf.GGUFWriter, config: Any, head_width: int) -> None:
    rotary = config.rope_parameters
    if "full_attention" in rotary:
        writer.add_key_value(
            f"{writer.arch}.rope.freq_base_swa",
            rotary["sliding_attention"]["rope_theta"],
            gguf.GGUFValueType.FLOAT32,
        )
        rotary = rotary["full_attention"]
    writer.add_rope_freq_base(rotary["rope_theta"])
    kind = rotary["rope_type"]
    if kind == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rotary["factor"])
    elif kind == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(rotary["factor"])
        writer.add_rope_scaling_orig_ctx_len(rotary["original_max_position_embeddings"])
    elif kind == "llama3":
        from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

        scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](config, torch.device("cpu"))
        plain = rotary["rope_theta"] ** (-torch.arange(0, head_width, 2) / head_width)
        writer.add_tensor("rope_freqs.weight", (plain / scaled).numpy().astype(np.float32))


def _pairs_side_by_side(rows: NDArray[np.float32], head_width: int) -> NDArray[np.float32]:
    by_head = rows.reshape(-1, 2, head_width // 2, *rows.shape[1:])
    return by_head.swapaxes(1, 2).reshape(rows.shape)
