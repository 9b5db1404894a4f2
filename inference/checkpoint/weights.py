"""Weights as a checkpoint gives them: by canonical name, as numpy arrays, in one layout.

Canonical names (`N` counts layers from 0):

    embedding                                      [vocabulary, width]
    layers.N.attention_norm, .feed_forward_norm    [width]
    layers.N.q                                     [n_heads * head_width, width]
    layers.N.k, layers.N.v                         [n_kv_heads * head_width, width]
    layers.N.output                                [width, n_heads * head_width]
    layers.N.gate, layers.N.up                     [feed_forward_width, width]
    layers.N.down                                  [width, feed_forward_width]
    final_norm                                     [width]
    head                                           [vocabulary, width], absent when tied

Rows of `q` and `k` are in *adjacent-pair* order: within a head, rows 2j and 2j + 1 are the two numbers that
rotary angle j turns. That is how GGUF stores Llama; Hugging Face stores them half a head apart, so its rows
are interleaved on the way in. The order changes no dot product, for it is the same in `q` and `k`.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Float32 = NDArray[np.float32]
GROUP = 32
"""Weights that share one scale and one minimum in the four-bit formats of GGUF."""


@dataclass(frozen=True)
class FourBit:
    """A matrix stored in four bits: weight = code * scale + minimum, in groups of 32 along a row."""

    codes: NDArray[np.uint8]
    """[out, in], each 0 to 15"""
    scales: Float32
    """[out, in / 32]"""
    minimums: Float32
    """[out, in / 32]"""

    @staticmethod
    def concatenate(parts: "list[FourBit]") -> "FourBit":
        """The matrices one under the other, so that one product computes them all."""
        return FourBit(
            np.concatenate([part.codes for part in parts]),
            np.concatenate([part.scales for part in parts]),
            np.concatenate([part.minimums for part in parts]),
        )


class WeightSource(Protocol):
    """Where the weights of one checkpoint come from. Unknown names raise KeyError."""

    def tensor(self, name: str) -> Float32:
        """The tensor in float32, dequantised if it was packed."""

    def four_bit(self, name: str) -> FourBit | None:
        """The packed matrix as it is in the file, or None if it is not stored in four bits."""


def adjacent_pairs(rows: Float32, n_heads: int) -> Float32:
    """Reorders the rows of every head from (j, j + half) pairs to adjacent pairs (2j, 2j + 1)."""
    out, width = rows.shape
    halves = rows.reshape(n_heads, 2, out // n_heads // 2, width)
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(out, width))
