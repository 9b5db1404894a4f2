"""Weights as a checkpoint gives them: by canonical name, as numpy arrays, in one layout.

Canonical names (`N` counts layers from 0; `ModelConfig.tensor_shapes` says which a model has):

    embedding                                      [vocabulary, width]
    layers.N.attention_norm, .feed_forward_norm    [width]
    layers.N.attention_post_norm, .feed_forward_post_norm    [width], where updates are normalised too
    layers.N.q                                     [n_heads * head_width, width]
    layers.N.k, layers.N.v                         [n_kv_heads * head_width, width]
    layers.N.q_norm, layers.N.k_norm               [head_width], where queries and keys are normalised
    layers.N.output                                [width, n_heads * head_width]
    layers.N.gate, layers.N.up                     [feed_forward_width, width]
    layers.N.down                                  [width, feed_forward_width]
    <matrix>.bias                                  [rows of the matrix], where it has one
    final_norm                                     [width]
    head                                           [vocabulary, width], absent when tied

Rows of `q` and `k` are in *adjacent-pair* order: within a head, rows 2j and 2j + 1 are the two numbers that
rotary angle j turns. That is how GGUF stores Llama; elsewhere they stand half a head apart, so the rows (of biases
and of the norms of queries and keys as well) are interleaved on the way in. The order changes no dot product, for it
is the same in `q` and `k`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from inference.checkpoint.config import ModelConfig
from inference.checkpoint.unsupported import UnsupportedCheckpoint

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

    def __getitem__(self, rows: NDArray[np.intp]) -> "FourBit":
        """The chosen rows, in that order."""
        return FourBit(self.codes[rows], self.scales[rows], self.minimums[rows])

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


Rows = TypeVar("Rows", Float32, FourBit)


def in_adjacent_pairs(rows: Rows, name: str, config: ModelConfig) -> Rows:
    """The tensor of that name with pairs half a head apart, (j, j + half), made adjacent: (2j, 2j + 1).

    What does not belong to queries or keys stays as it is.
    """
    heads = {"q": config.n_heads, "k": config.n_kv_heads, "q_norm": 1, "k_norm": 1}
    count = heads.get(name.removesuffix(".bias").rsplit(".", 1)[-1])
    if count is None:
        return rows
    numbers = np.arange(count * config.head_width).reshape(count, 2, -1)
    return rows[numbers.swapaxes(1, 2).reshape(-1)]


def check_shapes(config: ModelConfig, found: Mapping[str, tuple[int, ...]]) -> None:
    """Raises UnsupportedCheckpoint for the first tensor that is missing, of another shape or not expected."""
    expected = config.tensor_shapes()
    for name, shape in expected.items():
        if name not in found:
            raise UnsupportedCheckpoint(f"tensor {name} is missing")
        if found[name] != shape:
            raise UnsupportedCheckpoint(f"tensor {name} is {list(found[name])}; its model has {list(shape)}")
    unknown = sorted(found.keys() - expected.keys())
    if unknown:
        raise UnsupportedCheckpoint(f"tensor {unknown[0]}, which a model of architecture {config.architecture} lacks")
