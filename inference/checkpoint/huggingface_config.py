"""Reads config.json of a Hugging Face folder into a ModelConfig. Never imports torch.

What a file leaves out has the value that the format's own library assumes for that architecture.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

from inference.checkpoint.config import Activation, LayerKind, ModelConfig
from inference.checkpoint.rotary import LinearScaling, Llama3Scaling, Rotary, Scaling, YarnScaling
from inference.checkpoint.stated import Stated
from inference.checkpoint.unsupported import UnsupportedCheckpoint


@dataclass(frozen=True)
class _Family:
    """What an architecture has whether or not its files say so."""

    name: str
    tied_head: bool = False
    rotary_base: float = 10000.0
    head_width: int | None = None
    """None: the width divided by the number of heads."""
    qkv_bias: bool = False
    activation_field: str = "hidden_act"
    activation: str = "silu"


_FAMILIES = {
    "llama": _Family("llama"),
    "mistral": _Family("mistral"),
    "qwen2": _Family("qwen2", qkv_bias=True),
    "qwen3": _Family("qwen3", head_width=128),
    "smollm3": _Family("smollm3", tied_head=True, rotary_base=2e6),
    "gemma3_text": _Family(
        "gemma3",
        tied_head=True,
        rotary_base=1e6,
        head_width=256,
        activation_field="hidden_activation",
        activation="gelu_pytorch_tanh",
    ),
}
_ACTIVATIONS: dict[str, Activation] = {"silu": "silu", "gelu_pytorch_tanh": "gelu_tanh"}


def read_config(file: Path) -> ModelConfig:
    """Raises UnsupportedCheckpoint, naming the field or the feature."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UnsupportedCheckpoint(f"config.json is not valid JSON: {error}") from error
    if not isinstance(content, dict):
        raise UnsupportedCheckpoint("config.json is not an object")
    stated = Stated("config.json: ", content.get)
    architecture = stated.text("model_type")
    family = _FAMILIES.get(architecture)
    if family is None:
        raise UnsupportedCheckpoint(f"architecture {architecture!r}; supported are {', '.join(_FAMILIES)}")
    _refuse_features(stated)
    gemma = family.name == "gemma3"
    width, n_heads = stated.whole("hidden_size"), stated.whole("num_attention_heads")
    head_width = stated.whole("head_dim", family.head_width or width // max(n_heads, 1))
    all_biased = family.name in ("llama", "qwen3", "smollm3", "gemma3") and stated.flag("attention_bias")
    return ModelConfig(
        architecture=family.name,
        layers=_layers(stated, family),
        n_heads=n_heads,
        n_kv_heads=stated.whole("num_key_value_heads", n_heads),
        head_width=head_width,
        width=width,
        feed_forward_width=stated.whole("intermediate_size"),
        vocabulary=stated.whole("vocab_size"),
        context_length=stated.whole("max_position_embeddings"),
        rms_epsilon=stated.number("rms_norm_eps", 1e-6),
        tied_head=stated.flag("tie_word_embeddings", family.tied_head),
        score_divisor=math.sqrt(stated.whole("query_pre_attn_scalar", 256) if gemma else head_width),
        activation=_activation(stated.text(family.activation_field, family.activation)),
        embedding_multiplier=math.sqrt(width) if gemma else 1.0,
        qkv_bias=family.qkv_bias or all_biased,
        output_bias=all_biased,
        feed_forward_bias=family.name in ("llama", "smollm3") and stated.flag("mlp_bias"),
        query_key_norm=family.name in ("qwen3", "gemma3"),
        post_norm=gemma,
    )


def _refuse_features(stated: Stated) -> None:
    if (quantised := stated.part("quantization_config")) is not None:
        raise UnsupportedCheckpoint(f"quantisation {quantised.text('quant_method', 'of no stated method')!r}")
    for name in ("attn_logit_softcapping", "final_logit_softcapping"):
        if stated.states(name):
            raise UnsupportedCheckpoint(f"capped logits ({name})")
    if stated.flag("use_bidirectional_attention"):
        raise UnsupportedCheckpoint("attention in both directions")
    if stated.number("partial_rotary_factor", 1.0) != 1:
        raise UnsupportedCheckpoint("rotary positions on a part of the head only")


def _activation(name: str) -> Activation:
    if name not in _ACTIVATIONS:
        raise UnsupportedCheckpoint(f"activation {name!r}; supported are {', '.join(_ACTIVATIONS)}")
    return _ACTIVATIONS[name]


def _layers(stated: Stated, family: _Family) -> tuple[LayerKind, ...]:
    count = stated.whole("num_hidden_layers")
    sliding = _sliding(stated, family, count)
    window = stated.whole("sliding_window", 4096) if any(sliding) else None
    turned = _turned(stated, family, count)
    full, local = _rotaries(stated, family)
    return tuple(
        LayerKind((local if slides else full) if turns else None, window if slides else None)
        for slides, turns in zip(sliding, turned, strict=True)
    )


def _sliding(stated: Stated, family: _Family, count: int) -> list[bool]:
    """Which layers look through a sliding window."""
    types = stated.list("layer_types")
    if family.name == "llama":
        return [False] * count
    if family.name == "mistral":
        return [stated.states("sliding_window")] * count
    if family.name != "gemma3" and not (stated.flag("use_sliding_window") and stated.states("sliding_window")):
        return [False] * count
    if types is not None:
        odd = [kind for kind in types if kind not in ("full_attention", "sliding_attention")]
        if odd or len(types) != count:
            raise UnsupportedCheckpoint(f"layer types {odd[0]!r}" if odd else f"{len(types)} layer types for {count}")
        return [kind == "sliding_attention" for kind in types]
    if family.name == "gemma3":
        every = stated.whole("sliding_window_pattern", stated.whole("_sliding_window_pattern", 6), at_least=1)
        return [(number + 1) % every != 0 for number in range(count)]
    if family.name == "smollm3":
        return [not turns for turns in _turned(stated, family, count)]
    first = stated.whole("max_window_layers", 28)
    return [number >= first for number in range(count)]


def _turned(stated: Stated, family: _Family, count: int) -> list[bool]:
    """Which layers have rotary positions."""
    if family.name != "smollm3":
        return [True] * count
    listed = stated.list("no_rope_layers")  # 1 stands for a layer that has them
    if listed is not None:
        if len(listed) != count:
            raise UnsupportedCheckpoint(f"no_rope_layers names {len(listed)} layers of {count}")
        return [bool(turns) for turns in listed]
    every = stated.whole("no_rope_layer_interval", 4, at_least=1)
    return [(number + 1) % every != 0 for number in range(count)]


def _rotaries(stated: Stated, family: _Family) -> tuple[Rotary, Rotary]:
    """Of layers that see everything, and of layers that look through a window: only in Gemma they differ."""
    # Newer files keep everything rotary in one object, older ones beside the other fields.
    newer = stated.part("rope_parameters")
    given = newer if newer is not None else stated.part("rope_scaling")
    base = stated.number("rope_theta", family.rotary_base)
    if family.name != "gemma3":
        one = _rotary(stated, given, base)
        return one, one
    nested = newer.part("full_attention") if newer is not None else None
    local = newer.part("sliding_attention") if newer is not None else None
    full = _rotary(stated, nested if nested is not None else given, base)
    return full, _rotary(stated, local, stated.number("rope_local_base_freq", 10000.0))


def _rotary(stated: Stated, given: Stated | None, base: float) -> Rotary:
    if given is None:
        return Rotary(base)
    if given.number("partial_rotary_factor", 1.0) != 1:
        raise UnsupportedCheckpoint("rotary positions on a part of the head only")
    return Rotary(given.number("rope_theta", base), _scaling(stated, given))


def _scaling(stated: Stated, given: Stated) -> Scaling | None:
    kind = given.text("rope_type", given.text("type", "default"))
    if kind == "default":
        return None
    if kind == "linear":
        return LinearScaling(given.number("factor"))
    longest = stated.whole("max_position_embeddings")
    original = given.whole("original_max_position_embeddings", longest)
    original = stated.whole("original_max_position_embeddings", original)
    if kind == "llama3":
        return Llama3Scaling(
            factor=given.number("factor"),
            low_frequency_factor=given.number("low_freq_factor"),
            high_frequency_factor=given.number("high_freq_factor"),
            original_context=original,
        )
    if kind == "yarn":
        factor = given.number("factor", longest / max(original, 1))
        return YarnScaling(
            factor=factor,
            original_context=original,
            attention_factor=given.number("attention_factor", _lengthening(given, factor)),
            beta_fast=given.number("beta_fast", 32.0),
            beta_slow=given.number("beta_slow", 1.0),
            whole_pairs=given.flag("truncate", True),
        )
    raise UnsupportedCheckpoint(f"rotary scaling {kind!r}; supported are linear, llama3 and yarn")


def _lengthening(given: Stated, factor: float) -> float:
    """By how much YaRN lengthens vectors where the file does not say: 0.1 ln(factor) + 1."""

    def lengthened(by: float) -> float:
        return 0.1 * by * math.log(factor) + 1 if factor > 1 else 1.0

    both = given.number("mscale", 0.0), given.number("mscale_all_dim", 0.0)
    return lengthened(both[0]) / lengthened(both[1]) if all(both) else lengthened(1.0)
