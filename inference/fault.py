"""Where numbers that are none, NaN or infinity, first came up in a sequence."""

from __future__ import annotations

import torch
from torch import Tensor

from inference.cache import KVCache, ResidualPool
from inference.sequence import Sequence


def first_fault(sequence: Sequence, cache: KVCache, residuals: ResidualPool) -> str:
    """The layer, and the position where it is known, as the rest of a sentence.

    From the residual stream where it is recorded; else from keys and values, which leave open whether one layer made
    it or the next one's first product.
    """
    end = sequence.num_computed
    if sequence.record:
        states = residuals.rows[:, residuals.slots(sequence.blocks, 0, end)]
        found = _first(states.isfinite().all(dim=-1))
        if found is None:
            return "in the output head"
        layer, position = found
        return f"in layer {layer - 1}, at position {position}" if layer else f"in the embedding of position {position}"
    rows = cache.rows[:, :, cache.slots(sequence.blocks, 0, end)]
    found = _first(rows.isfinite().all(dim=-1).all(dim=1))
    if found is None:
        return f"in layer {len(rows) - 1} or the output head"
    layer, position = found
    before = f"layer {layer - 1}" if layer else "the embedding"
    return f"in {before} or the keys and values of layer {layer}, at position {position}"


def _first(sound: Tensor) -> tuple[int, int] | None:
    """Row and column of the first False in a bool [layers, positions]; null if there is none."""
    faults = torch.nonzero(~sound)
    return None if len(faults) == 0 else (int(faults[0, 0]), int(faults[0, 1]))
