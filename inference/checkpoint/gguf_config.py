"""Reads the metadata of a GGUF file into a ModelConfig. Never imports torch.

Metadata leave out what the format's readers know of an architecture: Gemma's rhythm of windows, SmolLM3's layers
without positions. It stands here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence, Set
from typing import Any

from inference.checkpoint.config import LayerKind, ModelConfig
from inference.checkpoint.rotary import LinearScaling, ListedScaling, Rotary, Scaling, YarnScaling
from inference.checkpoint.stated import Stated
from inference.checkpoint.unsupported import UnsupportedCheckpoint

ARCHITECTURES = ("llama", "qwen2", "qwen3", "smollm3", "gemma3")
ADJACENT = ("llama", "smollm3")
"""Architectures whose files keep the rows of q and k in adjacent-pair order already."""
_FULL_EVERY = 6  # of Gemma's layers the sixth, the twelfth … look at everything
_POSITIONS_SKIP = 4  # of SmolLM3's layers the fourth, the eighth … have no rotary positions
_GEMMA_27B_LAYERS = 62  # the one Gemma whose scores are divided by another root than that of the head width


def read_config(
    find: Callable[[str], Any], tensors: Set[str], *, vocabulary: int, divisors: Sequence[float] | None
) -> ModelConfig:
    """`find` gives a metadata field, `tensors` are canonical names, `divisors` the file's list for rotary angles.

    Raises UnsupportedCheckpoint, naming the field or the feature.
    """
    architecture = Stated("metadata field ", find).text("general.architecture")
    if architecture not in ARCHITECTURES:
        raise UnsupportedCheckpoint(f"architecture {architecture!r}; supported are {', '.join(ARCHITECTURES)}")
    stated = Stated(f"metadata field {architecture}.", lambda name: find(f"{architecture}.{name}"))
    n_heads, width = stated.whole("attention.head_count", at_least=1), stated.whole("embedding_length")
    head_width = stated.whole("attention.key_length", width // n_heads)
    _refuse_features(stated, head_width)
    gemma = architecture == "gemma3"
    n_layers = stated.whole("block_count")
    return ModelConfig(
        architecture=architecture,
        layers=_layers(stated, architecture, n_layers, divisors),
        n_heads=n_heads,
        n_kv_heads=stated.whole("attention.head_count_kv", n_heads),
        head_width=head_width,
        width=width,
        feed_forward_width=stated.whole("feed_forward_length"),
        vocabulary=vocabulary,
        context_length=stated.whole("context_length"),
        rms_epsilon=stated.number("attention.layer_norm_rms_epsilon"),
        tied_head="head" not in tensors,
        score_divisor=math.sqrt(width // n_heads if gemma and n_layers == _GEMMA_27B_LAYERS else head_width),
        activation="gelu_tanh" if gemma else "silu",
        embedding_multiplier=math.sqrt(width) if gemma else 1.0,
        qkv_bias="layers.0.q.bias" in tensors,
        output_bias="layers.0.output.bias" in tensors,
        feed_forward_bias="layers.0.up.bias" in tensors,
        query_key_norm=architecture in ("qwen3", "gemma3"),
        post_norm=gemma,
    )


def _refuse_features(stated: Stated, head_width: int) -> None:
    if stated.whole("expert_count", 0):
        raise UnsupportedCheckpoint("mixture of experts")
    if stated.whole("rope.dimension_count", head_width) != head_width:
        raise UnsupportedCheckpoint("rotary positions on a part of the head only")
    if stated.whole("attention.value_length", head_width) != head_width:
        raise UnsupportedCheckpoint("values of another width than keys")
    if not stated.flag("attention.causal", True):
        raise UnsupportedCheckpoint("attention in both directions")
    for name in ("attn_logit_softcapping", "final_logit_softcapping"):
        if stated.number(name, 0.0):
            raise UnsupportedCheckpoint(f"capped logits ({name})")
    for name in ("attention.scale", "logit_scale", "embedding_scale", "residual_scale"):
        if stated.states(name):
            raise UnsupportedCheckpoint(f"a scale of the model's own ({name})")


def _layers(stated: Stated, architecture: str, count: int, divisors: Sequence[float] | None) -> tuple[LayerKind, ...]:
    window = stated.whole("attention.sliding_window", 0) or None
    full = Rotary(stated.number("rope.freq_base", 10000.0), _scaling(stated, divisors))
    if architecture == "gemma3":
        if window is None:
            raise UnsupportedCheckpoint("metadata field gemma3.attention.sliding_window is missing")
        local = Rotary(stated.number("rope.freq_base_swa", 10000.0))
        every = stated.whole("attention.sliding_window_pattern", _FULL_EVERY, at_least=1)
        return tuple(LayerKind(full) if (n + 1) % every == 0 else LayerKind(local, window) for n in range(count))
    if window is not None and architecture != "llama":
        raise UnsupportedCheckpoint(f"a sliding window in {architecture}, whose files do not say in which layers")
    if architecture == "smollm3":
        return tuple(LayerKind(full if (n + 1) % _POSITIONS_SKIP else None) for n in range(count))
    return (LayerKind(full, window),) * count


def _scaling(stated: Stated, divisors: Sequence[float] | None) -> Scaling | None:
    kind = stated.text("rope.scaling.type", "linear" if stated.states("rope.scale_linear") else "none")
    if divisors is not None:
        if kind not in ("none", "linear") or _factor(stated) != 1:
            raise UnsupportedCheckpoint(f"rotary scaling {kind!r} together with divisors of rotary angles")
        return ListedScaling(tuple(divisors))
    if kind == "none":
        return None
    if kind == "linear":
        return None if _factor(stated) == 1 else LinearScaling(_factor(stated))
    if kind == "yarn":
        return _yarn(stated)
    raise UnsupportedCheckpoint(f"rotary scaling {kind!r}; supported are linear and yarn")


def _factor(stated: Stated) -> float:
    # Older files keep a linear factor under another name. 0 stands for none.
    return stated.number("rope.scaling.factor", stated.number("rope.scale_linear", 0.0)) or 1.0


def _yarn(stated: Stated) -> YarnScaling:
    for name, usual in (("yarn_ext_factor", 1.0), ("yarn_log_multiplier", 0.0)):
        if stated.number(f"rope.scaling.{name}", usual) != usual:
            raise UnsupportedCheckpoint(f"rotary scaling 'yarn' with a {name} of its own")
    factor = _factor(stated)
    stretched = stated.number("rope.scaling.attn_factor", 1.0) * stated.number("rope.scaling.yarn_attn_factor", 1.0)
    return YarnScaling(
        factor=factor,
        original_context=stated.whole("rope.scaling.original_context_length", stated.whole("context_length")),
        attention_factor=stretched * (0.1 * math.log(factor) + 1 if factor > 1 else 1),
        beta_fast=stated.number("rope.scaling.yarn_beta_fast", 32.0),
        beta_slow=stated.number("rope.scaling.yarn_beta_slow", 1.0),
    )
