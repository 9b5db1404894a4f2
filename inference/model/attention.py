"""Attention: the five small steps, and the block of a layer that takes them.

The steps are used by the running decoder and by everything that derives a picture from it.
"""

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Protocol

import torch
from torch import Tensor

from inference.cache import Window
from inference.checkpoint.config import ModelConfig
from inference.model.clock import Clock
from inference.model.linear import Linear, columns
from inference.model.norm import RMSNorm
from inference.model.qkv import QKV
from inference.model.rope import as_pairs, rotate


def dot_products(queries: Tensor, keys: Tensor) -> Tensor:
    """Every query with every key: [n, queries, d] and [n, keys, d] -> [n, queries, keys]."""
    return torch.bmm(queries, keys.transpose(1, 2))


def scale(scores: Tensor, divisor: float) -> Tensor:
    """Scores divided by the root of the width of the vectors (or what the model has instead), so that their spread
    does not grow with it."""
    return scores * _inverse(divisor)


@cache
def _inverse(number: float) -> Tensor:
    """As a tensor: to make one of a Python number takes longer than to multiply by it."""
    return torch.tensor(1 / number)


def causal_mask(
    start: int, num_queries: int, num_keys: int, device: torch.device | None = None, *, window: int | None = None
) -> Tensor:
    """True where a query may look at a key: keys at or before its own position, the last `window` of them.

    Query i stands at position start + i; keys at positions 0 to num_keys - 1. -> bool [queries, keys].
    """
    queries = torch.arange(start, start + num_queries, device=device)[:, None]
    keys = torch.arange(num_keys, device=device)
    before = keys <= queries
    return before if window is None else before & (keys > queries - window)


def apply_mask(scores: Tensor, allowed: Tensor) -> Tensor:
    """Minus infinity where not allowed: no score, however low, weighs less. Same shape as scores."""
    return scores.masked_fill(~allowed, -math.inf)


def softmax(scores: Tensor) -> Tensor:
    """Exponentials over their sum along the last dimension; exactly 0 at minus infinity."""
    return torch.softmax(scores, dim=-1)


def weighted_sum(weights: Tensor, values: Tensor) -> Tensor:
    """[n, queries, keys] and [n, keys, d] -> [n, queries, d]."""
    return torch.bmm(weights, values)


class Capture(Protocol):
    """Receives what the running attention computed. For tests; the service never passes one."""

    def weights(self, layer: int, start: int, weights: Tensor) -> None:
        """Weights [n_heads, queries, keys] of the queries at positions start and following."""


def split_heads(rows: Tensor, n_kv_heads: int) -> Tensor:
    """[positions, n_heads, head_width] -> [n_kv_heads, heads per kv head * positions, head_width].

    The query heads that share one key head become rows of one product; those of a single position are so already.
    """
    positions, _, head_width = rows.shape
    if positions == 1:
        return rows.view(n_kv_heads, -1, head_width)
    heads = rows.view(positions, n_kv_heads, -1, head_width)
    return heads.permute(1, 2, 0, 3).reshape(n_kv_heads, -1, head_width)


def join_heads(heads: Tensor, positions: int) -> Tensor:
    """The way back: [n_kv_heads, heads per kv head * positions, head_width] -> [positions, n_heads * head_width]."""
    if positions == 1:
        return heads.view(1, -1)
    n_kv_heads, _, head_width = heads.shape
    by_head = heads.view(n_kv_heads, -1, positions, head_width)
    return by_head.permute(2, 0, 1, 3).reshape(positions, -1)


class Span:
    """The rows of a step that belong to one sequence, and the keys and values they meet.

    Every sequence attends by itself: the order of a sum must not depend on who else is in the step.
    """

    def __init__(
        self,
        config: ModelConfig,
        qkv: QKV,
        rows: slice,
        start: int,
        window: Window,
        allowed: Mapping[int | None, Tensor | None],
    ) -> None:
        """`start` is the position of the first row. `allowed`, by the layer's window of keys, is the causal mask
        [queries, keys]; None for a single query that may look at everything before it."""
        self._config = config
        self._positions = rows.stop - rows.start
        self._start = start
        self._window = window
        self._allowed = allowed
        self._queries = qkv.q[rows]
        self._keys_and_values = qkv.keys_and_values[rows].transpose(0, 1)

    def attend(self, layer: int, clock: Clock, capture: Capture | None) -> Tensor:
        """What the layer's heads gather for these rows: [positions, n_heads * head_width]."""
        config, positions = self._config, self._positions
        self._window.write(layer, self._keys_and_values)
        keys, values = self._window.read(layer)
        clock.mark("kv_cache")
        scores = dot_products(split_heads(self._queries, config.n_kv_heads), keys)
        clock.mark("scores")
        scores = scale(scores, config.score_divisor)
        clock.mark("scale")
        allowed = self._allowed[config.layers[layer].window]
        if allowed is not None:
            by_query = scores.view(config.n_heads, positions, -1)
            scores = apply_mask(by_query, allowed).view_as(scores)
            clock.mark("mask")
        weights = softmax(scores)
        clock.mark("softmax")
        if capture is not None:
            capture.weights(layer, self._start, weights.view(config.n_heads, positions, -1))
        mixed = join_heads(weighted_sum(weights, values), positions)
        clock.mark("weighted_sum")
        return mixed


class Attention:
    """The attention block of one layer."""

    def __init__(
        self,
        config: ModelConfig,
        layer: int,
        *,
        norm: RMSNorm,
        qkv: Linear,
        q_norm: RMSNorm | None = None,
        k_norm: RMSNorm | None = None,
        output: Linear,
        post_norm: RMSNorm | None = None,
    ) -> None:
        self.config = config
        self.layer = layer
        self.kind = config.layers[layer]
        self.norm = norm
        self.qkv = qkv
        self.q_norm = q_norm
        self.k_norm = k_norm
        self.output = output
        self.post_norm = post_norm
        self._keys_and_values = columns(qkv, config.query_width, config.query_width + 2 * config.kv_width)

    def project(self, normed: Tensor, qkv: QKV) -> None:
        """Fills `qkv` with the queries, keys and values of rows [positions, width]."""
        qkv.rows.copy_(self.qkv(normed).view_as(qkv.rows))

    def keys_and_values(self, normed: Tensor, turns: Tensor | None) -> tuple[Tensor, Tensor]:
        """Finished keys and values of rows [positions, width], each [positions, n_kv_heads, head_width], without the
        queries beside them."""
        rows = self._keys_and_values(normed).float().reshape(len(normed), 2, self.config.n_kv_heads, -1)
        keys, values = rows[:, 0], rows[:, 1]
        if self.k_norm is not None:
            keys = self.k_norm(keys)
        if turns is not None:
            rotate(as_pairs(keys), turns)
        return keys, values

    def normalise(self, qkv: QKV) -> None:
        """Every head's query and key to a common size, in models that do so."""
        if self.q_norm is not None and self.k_norm is not None:
            qkv.q.copy_(self.q_norm(qkv.q))
            qkv.k.copy_(self.k_norm(qkv.k))

    def turn(self, qkv: QKV, turns: Tensor | None) -> None:
        """Queries and keys to their positions, in layers that do so."""
        if turns is not None:
            rotate(qkv.pairs, turns)

    def update(self, joined: Tensor) -> Tensor:
        """What all heads' outputs add to the states: [positions, n_heads * head_width] -> [positions, width]."""
        update = self.output(joined)
        return update if self.post_norm is None else self.post_norm(update.float())

    def __call__(
        self,
        states: Tensor,
        qkv: QKV,
        turns: Tensor | None,
        spans: Sequence[Span],
        clock: Clock,
        capture: Capture | None,
    ) -> Tensor:
        """What attention adds to the states: [positions, width] -> [positions, width]."""
        normed = self.norm(states)
        clock.mark("residual_norm")
        self.project(normed, qkv)
        clock.mark("qkv")
        self.normalise(qkv)
        self.turn(qkv, turns)
        clock.mark("positions")
        mixed = [span.attend(self.layer, clock, capture) for span in spans]
        update = self.update(mixed[0] if len(mixed) == 1 else torch.cat(mixed))
        clock.mark("heads")
        return update
