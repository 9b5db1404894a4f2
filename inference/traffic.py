"""What a pass of the decoder reads and computes: where the time of a decoding step goes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from torch import Tensor

from inference.checkpoint import ModelConfig
from inference.model.clock import multiply_adds
from inference.model.decoder import Decoder
from inference.model.norm import RMSNorm


def weight_bytes(decoder: Decoder) -> int:
    """Bytes of weights that one pass reads, whatever its number of rows: the matrices of all products once.

    Of the embedding, and of the table beside a packed output head, only a few rows are read, and norms are below a
    thousandth: they do not count.
    """
    head = [array for array in _arrays(decoder.head) if array is not decoder.head.weight] or [decoder.head.weight]
    return sum(array.nbytes for array in (*_arrays(decoder.layers), *head))


def decoding_multiply_adds(config: ModelConfig, first: int, end: int) -> int:
    """Multiply-adds of decoding positions first to end - 1 one by one, each with its own logits."""
    if first >= end:
        return 0
    counts = multiply_adds(config, end - first, end)
    return sum(counts.values()) + (end - first - 1) * counts["logits"]


def _arrays(part: Any) -> Iterator[Tensor | np.ndarray[Any, Any]]:
    """The arrays that a part of the model keeps, in itself and in its parts."""
    if isinstance(part, Tensor | np.ndarray):
        yield part
    elif isinstance(part, list | tuple):
        for one in part:
            yield from _arrays(one)
    elif type(part).__module__.startswith("inference.model") and not isinstance(part, RMSNorm):
        for value in vars(part).values():
            yield from _arrays(value)
