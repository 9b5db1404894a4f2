"""Stages 9 to 16: positions, queries, keys, values, and what attention makes of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

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
from inference.model.embedding import cosine
from inference.model.rope import rotary_angles, rotate
from inference.views.query import Query, QueryError, within
from inference.views.trace import Trace
from inference.views.view import View, array

MAX_CELLS = 250_000
"""Cells of an attention map in one reply: a million bytes."""
THUMBNAIL = 32


@dataclass(frozen=True)
class Projections:
    """Queries, keys and values of consecutive positions, each [positions, heads, head_width]."""

    normed: Tensor
    """What the projections read, [positions, width]."""
    unturned_q: Tensor
    unturned_k: Tensor
    q: Tensor
    k: Tensor
    v: Tensor


def project(trace: Trace, layer: int, start: int, stop: int) -> Projections:
    """Projects positions start to stop - 1 as the running attention does."""
    config, attention = trace.decoder.config, trace.decoder.layers[layer].attention
    normed = attention.norm(trace.states(layer, start, stop))
    unturned = attention.project(normed)
    turning = config.n_heads + config.n_kv_heads
    turned = rotate(unturned[:, :turning].clone(), trace.decoder.turns[start:stop])
    return Projections(
        normed=normed,
        unturned_q=unturned[:, : config.n_heads],
        unturned_k=unturned[:, config.n_heads : turning],
        q=turned[:, : config.n_heads],
        k=turned[:, config.n_heads :],
        v=unturned[:, turning:],
    )


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
    config = trace.decoder.config
    num_keys = stop if num_keys is None else num_keys
    q = project(trace, layer, start, stop).q
    keys, values = trace.keys_and_values(layer, num_keys)
    if head is None:
        queries = split_heads(q, config.n_kv_heads, config.head_width)
    else:
        shared = head // config.heads_per_kv_head
        queries, keys, values = q[None, :, head], keys[shared : shared + 1], values[shared : shared + 1]
    raw = dot_products(queries, keys).view(-1, stop - start, num_keys)
    scaled = scale(raw, config.head_width)
    allowed = causal_mask(start, stop - start, num_keys, raw.device)
    masked = apply_mask(scaled, allowed)
    return Rows(raw, scaled, masked, softmax(masked), allowed, values)


def attend_one(trace: Trace, query: Query) -> tuple[Rows, int, dict[str, Any]]:
    """The attention of the chosen layer, head and position; the position; and the choice for `info`."""
    layer, head, position = trace.layer(query), trace.head(query), trace.position(query)
    rows = attend(trace, layer, position, position + 1, head=head)
    return rows, position, {"layer": layer, "head": head, "kv_head": head // trace.decoder.config.heads_per_kv_head}


def entropy(weights: Tensor) -> Tensor:
    """-sum p ln p over the last dimension, in nats; nothing comes from what weighs nothing."""
    return -torch.xlogy(weights, weights).sum(-1)


def positions(trace: Trace, query: Query) -> View:
    """angles [head_width / 2] in radians; q and k of the head before and after their pairs are turned."""
    layer, head, position = trace.layer(query), trace.head(query), trace.position(query)
    config = trace.decoder.config
    kv_head = head // config.heads_per_kv_head
    made = project(trace, layer, position, position + 1)
    angles = rotary_angles(torch.tensor([position]), config.head_width, config.rope_base)[0]
    tensors = {
        "angles": array(angles),
        "q_before": array(made.unturned_q[0, head]),
        "q_after": array(made.q[0, head]),
        "k_before": array(made.unturned_k[0, kv_head]),
        "k_after": array(made.k[0, kv_head]),
    }
    return trace.view(
        "positions",
        tensors,
        position,
        layer=layer,
        head=head,
        kv_head=kv_head,
        base=config.rope_base,
        pairing="numbers 2j and 2j + 1 are turned by angle j",
    )


def qkv(trace: Trace, query: Query) -> View:
    """q, k, v [head_width] of the head before rotation; the normed input [width] they are projected from."""
    layer, head, position = trace.layer(query), trace.head(query), trace.position(query)
    config = trace.decoder.config
    kv_head = head // config.heads_per_kv_head
    made = project(trace, layer, position, position + 1)
    tensors = {
        "normed": array(made.normed[0]),
        "q": array(made.unturned_q[0, head]),
        "k": array(made.unturned_k[0, kv_head]),
        "v": array(made.v[0, kv_head]),
    }
    kv_width = config.n_kv_heads * config.head_width
    return trace.view(
        "qkv",
        tensors,
        position,
        layer=layer,
        head=head,
        kv_head=kv_head,
        weight_shapes={
            "q": [config.query_width, config.width],
            "k": [kv_width, config.width],
            "v": [kv_width, config.width],
        },
        norms={name: float(torch.from_numpy(tensors[name]).norm()) for name in ("q", "k", "v", "normed")},
    )


def scores(trace: Trace, query: Query) -> View:
    """raw [keys]: the query's dot product with every key it may see.

    With `key`: that product opened into q, k and products [head_width], sum, norms, cosine and angle in degrees.
    """
    rows, position, chosen = attend_one(trace, query)
    tensors = {"raw": array(rows.raw[0, 0])}
    opened = None
    if query.key is not None:
        key = within("key", query.key, position + 1, "at or before the position")
        q = project(trace, chosen["layer"], position, position + 1).q[0, chosen["head"]]
        k = trace.keys_and_values(chosen["layer"], key + 1)[0][chosen["kv_head"], key]
        products = q * k
        tensors |= {"q": array(q), "k": array(k), "products": array(products)}
        similarity = float(cosine(k[None], q)[0])
        opened = {
            "key": key,
            "sum": float(products.sum()),
            "q_norm": float(q.norm()),
            "k_norm": float(k.norm()),
            "cosine": similarity,
            "angle_degrees": math.degrees(math.acos(max(-1.0, min(1.0, similarity)))),
        }
    return trace.view("scores", tensors, position, **chosen, opened=opened)


def scaled_scores(trace: Trace, query: Query) -> View:
    """raw and scaled [keys]: before and after the division by the root of the head width."""
    rows, position, chosen = attend_one(trace, query)
    tensors = {"raw": array(rows.raw[0, 0]), "scaled": array(rows.scaled[0, 0])}
    head_width = trace.decoder.config.head_width
    return trace.view("scale", tensors, position, **chosen, head_width=head_width, divisor=math.sqrt(head_width))


def mask(trace: Trace, query: Query) -> View:
    """allowed [keys] (1 or 0), before and after (minus infinity where forbidden) over all computed positions."""
    layer, head, position = trace.layer(query), trace.head(query), trace.position(query)
    rows = attend(trace, layer, position, position + 1, head=head, num_keys=trace.length)
    tensors = {
        "allowed": array(rows.allowed[0]),
        "before": array(rows.scaled[0, 0]),
        "after": array(rows.masked[0, 0]),
    }
    return trace.view(
        "mask",
        tensors,
        position,
        layer=layer,
        head=head,
        num_allowed=position + 1,
        num_forbidden=trace.length - position - 1,
        rule="a query may look at keys at or before its own position",
    )


def softmax_row(trace: Trace, query: Query) -> View:
    """scaled and weights [keys]; largest score, sum of exp(score - largest), sum, entropy (nats), sink mass."""
    rows, position, chosen = attend_one(trace, query)
    scaled, weights = rows.masked[0, 0], rows.weights[0, 0]
    largest = scaled.max()
    return trace.view(
        "softmax",
        {"scaled": array(scaled), "weights": array(weights)},
        position,
        **chosen,
        largest=float(largest),
        exponential_sum=float((scaled - largest).exp().sum()),
        sum=float(weights.sum()),
        entropy=float(entropy(weights)),
        sink_mass=float(weights[0]),
    )


def attention_map(trace: Trace, query: Query) -> View:
    """weights [queries, keys] of one head, the whole square or a tile of it, masked cells exactly 0.

    Without bounds the last 500 positions, if there are more. The colour maximum leaves out row 0 and column 0,
    where nearly all the weight of deep layers lies.
    """
    layer, head, length = trace.layer(query), trace.head(query), trace.length
    side = math.isqrt(MAX_CELLS)
    query_from, query_to = _bounds("query", query.query_from, query.query_to, length, side)
    key_from, key_to = _bounds("key", query.key_from, query.key_to, length, side)
    rows = attend(trace, layer, query_from, query_to, head=head, num_keys=length)
    tile = rows.weights[0, :, key_from:key_to]
    inner = tile[max(0, 1 - query_from) :, max(0, 1 - key_from) :]
    return trace.view(
        "attention",
        {"weights": array(tile)},
        layer=layer,
        head=head,
        query_from=query_from,
        query_to=query_to,
        key_from=key_from,
        key_to=key_to,
        colour_maximum=float((inner if inner.numel() else tile).max()),
        colour_leaves_out="row 0 and column 0" if inner.numel() else None,
        maximum=float(tile.max()),
    )


def _bounds(axis: str, start: int | None, stop: int | None, length: int, side: int) -> tuple[int, int]:
    stop = length if stop is None else stop
    if not 1 <= stop <= length:
        raise QueryError(f"{axis}_to", f"must be 1 to {length} (computed so far), not {stop}")
    start = max(0, stop - side) if start is None else start
    if not 0 <= start < stop:
        raise QueryError(f"{axis}_from", f"must be 0 to {stop - 1}, not {start}")
    if stop - start > side:
        raise QueryError(f"{axis}_to", f"a tile has at most {side} positions a side, not {stop - start}")
    return start, stop


def heads_grid(trace: Trace, query: Query) -> View:
    """entropy (nats) and sink_mass [n_layers, n_heads] of the position; thumbnails [n_heads, 32, 32] of the layer.

    A thumbnail's cell is the largest weight of its block of the square; its colour maximum leaves out row 0 and
    column 0 of the square.
    """
    layer, position, length = trace.layer(query), trace.position(query), trace.length
    config = trace.decoder.config
    weights = torch.stack([attend(trace, n, position, position + 1).weights[:, 0] for n in range(config.n_layers)])
    size = -(-length // THUMBNAIL)
    cells = -(-length // size)
    thumbnails = torch.zeros(config.n_heads, cells, cells)
    brightest = torch.zeros(())
    for row, start in enumerate(range(0, length, size)):
        stop = min(start + size, length)
        block = attend(trace, layer, start, stop).weights
        inner = block[:, max(0, 1 - start) :, 1:]
        brightest = torch.maximum(brightest, inner.max() if inner.numel() else brightest)
        by_key = torch.nn.functional.pad(block.amax(dim=1), (0, -stop % size))
        pooled = by_key.view(config.n_heads, -1, size).amax(dim=2)
        thumbnails[:, row, : pooled.shape[1]] = pooled
    return trace.view(
        "heads_grid",
        {
            "entropy": array(entropy(weights)),
            "sink_mass": array(weights[..., 0]),
            "thumbnails": array(thumbnails),
        },
        position,
        layer=layer,
        positions_per_cell=size,
        colour_maximum=float(brightest) or float(thumbnails.max()),
        colour_leaves_out="row 0 and column 0" if float(brightest) else None,
    )


def weighted_values(trace: Trace, query: Query) -> View:
    """weights [keys], values [keys, head_width], output [head_width]: the sum of the values by their weights.

    Past 1,024 keys only the heaviest 1,024 come, with their positions in `keys`; the output is of all.
    """
    rows, position, chosen = attend_one(trace, query)
    weights, values = rows.weights[0, 0], rows.values[0]
    keys = weights.topk(min(1024, len(weights))).indices.sort().values
    tensors = {
        "keys": array(keys),
        "weights": array(weights[keys]),
        "values": array(values[keys]),
        "output": array(rows.mixed()[0]),
    }
    return trace.view("weighted_sum", tensors, position, **chosen, shown_mass=float(weights[keys].sum()))


def heads(trace: Trace, query: Query) -> View:
    """joined [n_heads * head_width]: all heads' outputs side by side; projected [width]: through the output matrix."""
    layer, position = trace.layer(query), trace.position(query)
    config = trace.decoder.config
    joined = attend(trace, layer, position, position + 1).mixed()
    projected = trace.decoder.layers[layer].attention.output(joined)[0].float()
    by_head = joined.view(config.n_heads, config.head_width)
    return trace.view(
        "heads",
        {"joined": array(joined[0]), "projected": array(projected), "head_norms": array(by_head.norm(dim=-1))},
        position,
        layer=layer,
        weight_shape=[config.width, config.query_width],
        projected_norm=float(projected.norm()),
    )
