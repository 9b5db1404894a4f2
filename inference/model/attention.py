"""Attention: the five small steps, and the block of a layer that takes them.

The steps are used by the running decoder and by everything that derives a picture from it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from inference.cache import KVCache, Slots
from inference.checkpoint.config import ModelConfig
from inference.model.clock import StageClock
from inference.model.linear import Linear
from inference.model.norm import RMSNorm
from inference.model.rope import rotate


def dot_products(queries: Tensor, keys: Tensor) -> Tensor:
    """Every query with every key: [n, queries, d] and [n, keys, d] -> [n, queries, keys]."""
    return torch.bmm(queries, keys.transpose(1, 2))


def scale(scores: Tensor, divisor: float) -> Tensor:
    """Scores divided by the root of the width of the vectors (or what the model has instead), so that their spread
    does not grow with it."""
    return scores * (1 / divisor)


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


@dataclass(frozen=True)
class Span:
    """The rows of a step that belong to one sequence, and where its keys and values lie."""

    rows: slice
    start: int
    """Position of the first row."""
    new: Slots
    context: Slots
    """Slots of positions 0 to the last new one."""
    allowed: Mapping[int | None, Tensor | None]
    """By window, the causal mask [queries, keys]; None for a single query that may look at everything before it."""


def split_qkv(projected: Tensor, config: ModelConfig) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values out of [positions, heads + 2 kv heads, head_width], as views of it."""
    turning = config.n_heads + config.n_kv_heads
    return projected[:, : config.n_heads], projected[:, config.n_heads : turning], projected[:, turning:]


def split_heads(rows: Tensor, n_kv_heads: int, head_width: int) -> Tensor:
    """[positions, n_heads * head_width] -> [n_kv_heads, heads per kv head * positions, head_width].

    The query heads that share one key head become rows of one product.
    """
    positions = rows.shape[0]
    heads = rows.view(positions, n_kv_heads, -1, head_width)
    return heads.permute(1, 2, 0, 3).reshape(n_kv_heads, -1, head_width)


def join_heads(heads: Tensor, positions: int) -> Tensor:
    """The way back: [n_kv_heads, heads per kv head * positions, head_width] -> [positions, n_heads * head_width]."""
    n_kv_heads, _, head_width = heads.shape
    by_head = heads.view(n_kv_heads, -1, positions, head_width)
    return by_head.permute(2, 0, 1, 3).reshape(positions, -1)


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

    def project(self, normed: Tensor) -> Tensor:
        """Queries, keys and values as projected, float32 [positions, heads + 2 kv heads, head_width]."""
        return self.qkv(normed).float().view(len(normed), -1, self.config.head_width)

    def normalise(self, projected: Tensor) -> Tensor:
        """Every head's query and key to a common size, in models that do so; values stay. Same shape."""
        if self.q_norm is None or self.k_norm is None:
            return projected
        config = self.config
        q, k, v = split_qkv(projected, config)
        return torch.cat([self.q_norm(q), self.k_norm(k), v], dim=1)

    def turn(self, projected: Tensor, turns: Tensor | None) -> Tensor:
        """Queries and keys turned to their positions, in place, in layers that do so; returns `projected`."""
        if turns is not None:
            rotate(projected[:, : self.config.n_heads + self.config.n_kv_heads], turns)
        return projected

    def update(self, joined: Tensor) -> Tensor:
        """What all heads' outputs add to the states: [positions, n_heads * head_width] -> [positions, width]."""
        update = self.output(joined)
        return update if self.post_norm is None else self.post_norm(update.float())

    def __call__(
        self,
        states: Tensor,
        turns: Tensor | None,
        spans: Sequence[Span],
        cache: KVCache,
        clock: StageClock,
        capture: Capture | None,
    ) -> Tensor:
        """What attention adds to the states: [positions, width] -> [positions, width]."""
        normed = self.norm(states)
        clock.mark("residual_norm")
        projected = self.project(normed)
        clock.mark("qkv")
        projected = self.turn(self.normalise(projected), turns)
        clock.mark("positions")
        mixed = [self._attend(projected[span.rows], span, cache, clock, capture) for span in spans]
        update = self.update(mixed[0] if len(mixed) == 1 else torch.cat(mixed))
        clock.mark("heads")
        return update

    def _attend(
        self, projected: Tensor, span: Span, cache: KVCache, clock: StageClock, capture: Capture | None
    ) -> Tensor:
        """One sequence: its new rows [positions, heads + 2 kv heads, head_width] -> [positions, query width].

        Sequence by sequence, for the order of a sum must not depend on who else is in the step.
        """
        config, positions = self.config, len(projected)
        cache.write(self.layer, span.new, projected[:, config.n_heads :].transpose(0, 1))
        keys, values = cache.read(self.layer, span.context)
        clock.mark("kv_cache")
        queries = split_heads(projected[:, : config.n_heads], config.n_kv_heads, config.head_width)
        scores = dot_products(queries, keys)
        clock.mark("scores")
        scores = scale(scores, config.score_divisor)
        clock.mark("scale")
        allowed = span.allowed[self.kind.window]
        if allowed is not None:
            by_query = scores.view(config.n_heads, positions, -1)
            scores = apply_mask(by_query, allowed).view_as(scores)
            clock.mark("mask")
        weights = softmax(scores)
        clock.mark("softmax")
        if capture is not None:
            capture.weights(self.layer, span.start, weights.view(config.n_heads, positions, -1))
        mixed = join_heads(weighted_sum(weights, values), positions)
        clock.mark("weighted_sum")
        return mixed
