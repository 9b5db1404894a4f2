"""Attention as pictures: the map of one head, and all heads in small."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from inference.model.decoder import CUT
from inference.query import Query, QueryError
from inference.views.derive import attend, entropy
from inference.views.trace import WEIGHED_AT_ONCE, Trace
from inference.views.view import View, array

MAX_CELLS = 250_000
"""Cells of an attention map in one reply: a million bytes."""
THUMBNAIL = 32
"""Cells a side of a thumbnail, at most."""


def attention_map(trace: Trace, query: Query) -> View:
    """weights [queries, keys] of one head, the whole square or a tile of it, masked cells exactly 0.

    Without bounds the last 500 positions, if there are more. The colour maximum leaves out row 0 and column 0,
    where nearly all the weight of deep layers lies.
    """
    layer, head, length = trace.layer(query), trace.head(query), trace.length
    side = math.isqrt(MAX_CELLS)
    query_from, query_to = _bounds("query", query.query_from, query.query_to, length, side)
    key_from, key_to = _bounds("key", query.key_from, query.key_to, length, side)
    tile = torch.zeros(query_to - query_from, key_to - key_from, device=trace.decoder.device)
    for start in range(query_from, query_to, CUT):
        stop = min(start + CUT, query_to)
        weights = attend(trace, layer, start, stop, head=head).weights[0, :, key_from:key_to]
        tile[start - query_from : stop - query_from, : weights.shape[1]] = weights
        trace.pause()
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
    weights = torch.stack([_row(trace, number, position) for number in range(config.n_layers)])
    size = -(-length // THUMBNAIL)
    cells = -(-length // size)
    thumbnails = weights.new_zeros(config.n_heads, cells, cells)
    brightest = weights.new_zeros(())
    for start, stop in _pieces(length, size):
        block = attend(trace, layer, start, stop).weights
        inner = block[:, max(0, 1 - start) :, 1:]
        brightest = torch.maximum(brightest, inner.max() if inner.numel() else brightest)
        by_key = torch.nn.functional.pad(block.amax(dim=1), (0, -stop % size))
        pooled = by_key.view(config.n_heads, -1, size).amax(dim=2)
        cell = thumbnails[:, start // size, : pooled.shape[1]]
        torch.maximum(cell, pooled, out=cell)
        trace.pause()
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


def _row(trace: Trace, layer: int, position: int) -> Tensor:
    """Weights [n_heads, keys] of one query."""
    trace.pause()
    return attend(trace, layer, position, position + 1).weights[:, 0]


def _pieces(length: int, size: int) -> Iterator[tuple[int, int]]:
    """Consecutive queries [from, to) that lie in one row of cells, no more than can be weighed between two pauses."""
    most = max(1, WEIGHED_AT_ONCE // length)
    for first in range(0, length, size):
        last = min(first + size, length)
        for start in range(first, last, most):
            yield start, min(start + most, last)
