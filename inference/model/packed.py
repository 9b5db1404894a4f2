"""Products with weights packed in four or eight bits, computed by the compiled functions (see `compiled.py`).

Inputs are rounded to 15 bits in groups of 32, sums are exact within a group and float32 across groups: what differs
from a product with the file's own weights in float32 is the fifth digit.
"""

from __future__ import annotations

from copy import copy

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from inference.checkpoint.weights import GROUP, Float32, FourBit
from inference.model.compiled import products

LANES = 16
"""Output columns that lie side by side."""
Bytes = NDArray[np.uint8]


def fits(out: int, width: int) -> bool:
    """Whether a matrix [out, width] can be packed."""
    return out % LANES == 0 and width % GROUP == 0


class PackedLinear:
    """rows [n, width] -> float32 [n, out]. A row of the result does not depend on the rows beside it."""

    def __init__(self, weight: FourBit | Float32) -> None:
        """Weights in four bits keep their codes; others are rounded to eight bits in groups of 32, which leaves what
        was stored so (Q8_0) as it is. Raises NotCompiled."""
        self.is_exact = True
        """Whether no weight was changed."""
        if isinstance(weight, FourBit):
            self._function = products().four_bit
            self._out, self._width = weight.codes.shape
            parts = [_by_lane(weight.scales), _by_lane(weight.minimums), _four_bit_codes(weight.codes)]
        else:
            self._function = products().eight_bit
            self._out, self._width = weight.shape
            scales, codes = _round_to_eight_bits(weight)
            kept = (codes.astype(np.float32) - 128).reshape(*scales.shape, GROUP) * scales[..., None]
            self.is_exact = bool(np.array_equal(kept.reshape(weight.shape), weight))
            parts = [_by_lane(scales), _eight_bit_codes(codes)]
        # numpy puts large arrays into large pages: that much memory would need thousands of small ones.
        self._packed = np.concatenate(parts, axis=-1)
        self._address = self._packed.ctypes.data

    def columns(self, start: int, stop: int) -> PackedLinear:
        """The product with only these output columns, from the same memory. Raises ValueError unless both are
        multiples of LANES."""
        if start % LANES or stop % LANES:
            raise ValueError(f"columns {start} to {stop} are no multiples of {LANES}")
        part = copy(self)
        part._packed = self._packed[start // LANES : stop // LANES]
        part._address = part._packed.ctypes.data
        part._out = stop - start
        return part

    def __call__(self, rows: Tensor) -> Tensor:
        if rows.dtype is not torch.float32:
            rows = rows.float()
        rows = rows.contiguous()
        count = rows.shape[0]
        product = torch.empty(count, self._out)
        if self._function(rows.data_ptr(), count, self._width, self._address, product.data_ptr(), self._out):
            raise MemoryError(f"no memory for {count} rounded rows of {self._width}")
        return product


def _by_lane(values: Float32) -> Bytes:
    """[out, groups] -> float16 as bytes [out / 16, groups, 32]."""
    out, groups = values.shape
    lanes = values.reshape(out // LANES, LANES, groups).swapaxes(1, 2)
    return lanes.astype(np.float16, order="C").view(np.uint8)


def _four_bit_codes(codes: Bytes) -> Bytes:
    """[out, width] -> [out / 16, groups, 256]: in a byte the codes of inputs i and i + 16 of a group."""
    out, width = codes.shape
    halves = codes.reshape(out // LANES, LANES, width // GROUP, 2, 4, 4)  # …, half, vector, byte
    both: Bytes = halves[:, :, :, 0] | np.left_shift(halves[:, :, :, 1], 4, dtype=np.uint8)
    return both.transpose(0, 2, 3, 1, 4).reshape(out // LANES, width // GROUP, -1)


def _eight_bit_codes(codes: Bytes) -> Bytes:
    """[out, width] -> [out / 16, groups, 512]."""
    out, width = codes.shape
    vectors = codes.reshape(out // LANES, LANES, width // GROUP, 8, 4)  # …, vector, byte
    return vectors.transpose(0, 2, 3, 1, 4).reshape(out // LANES, width // GROUP, -1)


def _round_to_eight_bits(weight: Float32) -> tuple[Float32, Bytes]:
    """Scales [out, groups] and codes plus 128 [out, width]: -127 to 127 steps of a scale that float16 can hold."""
    out, width = weight.shape
    groups = weight.reshape(out, width // GROUP, GROUP)
    scales = (np.abs(groups).max(axis=-1) / 127).astype(np.float16).astype(np.float32)
    steps = np.divide(groups, scales[..., None], out=np.zeros_like(groups), where=scales[..., None] != 0)
    codes = np.rint(steps).clip(-127, 127) + 128
    return scales, codes.astype(np.uint8).reshape(out, width)
