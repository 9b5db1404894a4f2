"""The attention of any position again, through the decoder's own functions: what the views of stages 9 to 16 share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from inference.checkpoint.config import ModelConfig
from inference.model.attention import (
    apply_mask,
    causal_mask,
    dot_products,
    join_heads,
    scale,
    softmax,
    split_heads,
    weighted_sum,
)
from inference.model.decoder import Decoder
from inference.model.qkv import QKV
from inference.views.trace import WEIGHED_AT_ONCE, Trace, no_pause


@dataclass(frozen=True)
class Projections:
    """Queries, keys and values of consecutive positions, each [positions, heads, head_width]."""

    normed: Tensor
    """What the projections read, [positions, width]."""
    projected_q: Tensor
    projected_k: Tensor
    unturned_q: Tensor
    """As projected, or normalised head by head in models that do so."""
    unturned_k: Tensor
    q: Tensor
    k: Tensor
    v: Tensor


def project(trace: Trace, layer: int, start: int, stop: int) -> Projections:
    """Projects positions start to stop - 1 as the running attention does."""
    return project_states(trace.decoder, layer, trace.states(layer, start, stop), start)


def project_states(decoder: Decoder, layer: int, states: Tensor, start: int) -> Projections:
    """Projects the states [positions, width] that enter a layer at position start and following."""
    attention = decoder.layers[layer].attention
    normed = attention.norm(states)
    qkv = QKV(decoder.config, len(states), decoder.device)
    attention.project(normed, qkv)
    projected_q, projected_k = qkv.q.clone(), qkv.k.clone()
    attention.normalise(qkv)
    unturned_q, unturned_k = qkv.q.clone(), qkv.k.clone()
    attention.turn(qkv, _turns(decoder, layer, start, len(states)))
    return Projections(normed, projected_q, projected_k, unturned_q, unturned_k, qkv.q, qkv.k, qkv.v)


def keys_and_values_of(decoder: Decoder, layer: int, states: Tensor, start: int) -> tuple[Tensor, Tensor]:
    """Of the states [positions, width] that enter a layer at position start and following, without their queries:
    each [n_kv_heads, positions, head_width]."""
    attention = decoder.layers[layer].attention
    keys, values = attention.keys_and_values(attention.norm(states), _turns(decoder, layer, start, len(states)))
    return keys.transpose(0, 1), values.transpose(0, 1)


def _turns(decoder: Decoder, layer: int, start: int, count: int) -> Tensor | None:
    """What turns queries and keys at so many positions; None in a layer that turns nothing."""
    turns = decoder.turns.get(decoder.layers[layer].attention.kind.rotary)
    return None if turns is None else turns[start : start + count]


@dataclass(frozen=True)
class Rows:
    """The attention of consecutive queries to keys 0 to keys - 1; all but `values` [heads, queries, keys]."""

    raw: Tensor
    scaled: Tensor
    masked: Tensor
    weights: Tensor
    allowed: Tensor
    """[queries, keys]"""
    values: Tensor
    """[kv heads, keys, head_width]"""

    def mixed(self) -> Tensor:
        """Every head's weighted sum of values, one head after the other: [queries, heads * head_width]."""
        _, queries, keys = self.weights.shape
        grouped = self.weights.reshape(len(self.values), -1, keys)
        return join_heads(weighted_sum(grouped, self.values), queries)


def attend(
    trace: Trace, layer: int, start: int, stop: int, *, head: int | None = None, num_keys: int | None = None
) -> Rows:
    """Recomputes the attention of positions start to stop - 1, for one head or for all."""
    q = project(trace, layer, start, stop).q
    keys, values = trace.keys_and_values(layer, stop if num_keys is None else num_keys)
    return weigh(trace.decoder.config, layer, q, keys, values, start, head=head)


def mixed_at(trace: Trace, layer: int, position: int) -> Tensor:
    """Every head's weighted sum of values at one position, one head after the other: [1, heads * head_width].

    Computed among the rows of the pass that computed it in the run, for the order of a sum depends on them: a packed
    product behind it rounds to eight binary digits, and would make a last bit's difference one of a third of a percent.
    """
    config, (start, stop) = trace.decoder.config, trace.pass_of(position)
    pause = trace.pause if (stop - start) * stop > WEIGHED_AT_ONCE else no_pause
    q = project(trace, layer, start, stop).q
    pause()
    keys, values = trace.keys_and_values(layer, stop)
    mixed = []
    for shared in range(config.n_kv_heads):
        own = slice(shared * config.heads_per_kv_head, (shared + 1) * config.heads_per_kv_head)
        rows = weigh(config, layer, q[:, own], keys[shared, None], values[shared, None], start, pause=pause)
        mixed.append(rows.mixed()[position - start, None])
        pause()
    return torch.cat(mixed, dim=-1)


def weigh(
    config: ModelConfig,
    layer: int,
    q: Tensor,
    keys: Tensor,
    values: Tensor,
    start: int,
    *,
    head: int | None = None,
    pause: Callable[[], None] = no_pause,
) -> Rows:
    """A layer's queries [positions, n_heads, head_width] from position start on, against keys and values
    [n_kv_heads, keys, head_width] from position 0 on; for one head or for all that are given."""
    count, num_keys = len(q), keys.shape[1]
    if head is None:
        queries = split_heads(q, len(keys))
    else:
        shared = head // config.heads_per_kv_head
        queries, keys, values = q[None, :, head], keys[shared : shared + 1], values[shared : shared + 1]
    raw = dot_products(queries, keys).view(-1, count, num_keys)
    pause()
    scaled = scale(raw, config.score_divisor)
    pause()
    allowed = causal_mask(start, count, num_keys, raw.device, window=config.layers[layer].window)
    masked = apply_mask(scaled, allowed)
    pause()
    return Rows(raw, scaled, masked, softmax(masked), allowed, values)


def entropy(weights: Tensor) -> Tensor:
    """-sum p ln p over the last dimension, in nats; nothing comes from what weighs nothing."""
    return -torch.xlogy(weights, weights).sum(-1)
