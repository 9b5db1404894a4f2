"""Stages 9 to 16: positions, queries, keys, values, and what attention makes of them."""

from __future__ import annotations

import math
from typing import Any

import torch

from inference.model.embedding import cosine
from inference.model.rope import rotary_angles
from inference.query import Query, within
from inference.views.derive import Rows, attend, entropy, mixed_at, project
from inference.views.trace import Trace
from inference.views.view import View, array


def attend_one(trace: Trace, query: Query) -> tuple[Rows, int, dict[str, Any]]:
    """The attention of the chosen layer, head and position; the position; and the choice for `info`."""
    layer, head, position = trace.layer(query), trace.head(query), trace.position(query)
    rows = attend(trace, layer, position, position + 1, head=head)
    return rows, position, {"layer": layer, "head": head, "kv_head": head // trace.decoder.config.heads_per_kv_head}


def positions(trace: Trace, query: Query) -> View:
    """angles [head_width / 2] in radians; q and k of the head before and after their pairs are turned.

    `magnitude` is by how much a turn also lengthens a pair. In a layer that turns nothing all angles are 0 and
    `base` is None.
    """
    layer, head, position = trace.layer(query), trace.head(query), trace.position(query)
    config = trace.decoder.config
    kv_head = head // config.heads_per_kv_head
    made = project(trace, layer, position, position + 1)
    rotary = config.layers[layer].rotary
    if rotary is None:
        angles = torch.zeros(config.head_width // 2)
    else:
        angles = rotary_angles(torch.tensor([position]), config.head_width, rotary)[0]
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
        base=None if rotary is None else rotary.base,
        scaling=None if rotary is None or rotary.scaling is None else rotary.scaling.name,
        magnitude=1.0 if rotary is None else rotary.magnitude,
        pairing="numbers 2j and 2j + 1 are turned by angle j",
    )


def qkv(trace: Trace, query: Query) -> View:
    """q, k, v [head_width] of the head as projected; the normed input [width] they are projected from.

    In a model that normalises them head by head also q_normed and k_normed; rotation comes after that.
    """
    layer, head, position = trace.layer(query), trace.head(query), trace.position(query)
    config = trace.decoder.config
    kv_head = head // config.heads_per_kv_head
    made = project(trace, layer, position, position + 1)
    tensors = {
        "normed": array(made.normed[0]),
        "q": array(made.projected_q[0, head]),
        "k": array(made.projected_k[0, kv_head]),
        "v": array(made.v[0, kv_head]),
    }
    if config.query_key_norm:
        tensors |= {"q_normed": array(made.unturned_q[0, head]), "k_normed": array(made.unturned_k[0, kv_head])}
    return trace.view(
        "qkv",
        tensors,
        position,
        layer=layer,
        head=head,
        kv_head=kv_head,
        weight_shapes={
            "q": [config.query_width, config.width],
            "k": [config.kv_width, config.width],
            "v": [config.kv_width, config.width],
        },
        bias=config.qkv_bias,
        norms={name: float(torch.from_numpy(tensor).norm()) for name, tensor in tensors.items()},
    )


def scores(trace: Trace, query: Query) -> View:
    """raw [keys]: the query's dot product with every key up to its own; key_norms [keys]: those keys' lengths.

    With `key`: that product opened into q, k and products [head_width], sum, norms, cosine and angle in degrees.
    """
    rows, position, chosen = attend_one(trace, query)
    keys = trace.keys_and_values(chosen["layer"], position + 1)[0][chosen["kv_head"]]
    tensors = {"raw": array(rows.raw[0, 0]), "key_norms": array(keys.norm(dim=-1))}
    opened = None
    if query.key is not None:
        key = within("key", query.key, position + 1, "at or before the position")
        q = project(trace, chosen["layer"], position, position + 1).q[0, chosen["head"]]
        k = keys[key]
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
    """raw and scaled [keys]: before and after the division by `divisor`, in most models the root of the head width."""
    rows, position, chosen = attend_one(trace, query)
    tensors = {"raw": array(rows.raw[0, 0]), "scaled": array(rows.scaled[0, 0])}
    config = trace.decoder.config
    return trace.view("scale", tensors, position, **chosen, head_width=config.head_width, divisor=config.score_divisor)


def mask(trace: Trace, query: Query) -> View:
    """allowed [keys] (1 or 0), before and after (minus infinity where forbidden) over all computed positions."""
    layer, head, position = trace.layer(query), trace.head(query), trace.position(query)
    rows = attend(trace, layer, position, position + 1, head=head, num_keys=trace.length)
    window = trace.decoder.config.layers[layer].window
    num_allowed = int(rows.allowed.sum())
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
        window=window,
        num_allowed=num_allowed,
        num_forbidden=trace.length - num_allowed,
        rule="a query may look at keys at or before its own position"
        + ("" if window is None else f", the last {window} of them"),
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
    """joined [n_heads * head_width]: all heads' outputs side by side; projected [width]: through the output matrix.

    In a model that normalises its updates also update [width], which is `projected` after that.
    """
    layer, position = trace.layer(query), trace.position(query)
    config = trace.decoder.config
    joined = mixed_at(trace, layer, position)
    attention = trace.decoder.layers[layer].attention
    projected = attention.output(joined)[0].float()
    by_head = joined.view(config.n_heads, config.head_width)
    tensors = {"joined": array(joined[0]), "projected": array(projected), "head_norms": array(by_head.norm(dim=-1))}
    if config.post_norm:
        tensors["update"] = array(attention.update(joined)[0])
    return trace.view(
        "heads",
        tensors,
        position,
        layer=layer,
        weight_shape=[config.width, config.query_width],
        projected_norm=float(projected.norm()),
    )
