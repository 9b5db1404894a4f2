"""Matrix products with weights kept dense, in eight bits, or in four bits.

A row of the result never depends on the rows beside it: the packed kernels give the same bits at every row
count, and dense products are padded to the row count from which theirs do. The result keeps the kernel's own
type (bfloat16 for the packed ones): who needs float32 casts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from inference.checkpoint import Checkpoint
from inference.checkpoint.weights import GROUP, FourBit
from inference.model.packed import LANES, PackedLinear

DENSE_MIN_ROWS = 4
"""Below this many rows CPU libraries switch to matrix-vector code that sums in another order."""


class Linear(Protocol):
    """rows [n, in] of any float type -> [n, out] in the kernel's type."""

    def __call__(self, rows: Tensor) -> Tensor: ...


class DenseLinear:
    """A product with float32 or bfloat16 weights."""

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight
        self._min_rows = DENSE_MIN_ROWS if weight.device.type == "cpu" else 1

    def __call__(self, rows: Tensor) -> Tensor:
        rows = rows.to(self.weight.dtype)
        missing = self._min_rows - rows.shape[0]
        if missing <= 0:
            return F.linear(rows, self.weight)
        return F.linear(F.pad(rows, (0, 0, 0, missing)), self.weight)[: rows.shape[0]]


class Int8Linear:
    """Weights in eight bits with one scale per output row; activations in bfloat16.

    The scale is rounded to bfloat16 *before* the weights are divided by it, so its rounding costs nothing.
    """

    COLUMNS = 16
    """The kernel wants a multiple of so many, and reads past the end of others."""

    def __init__(self, weight: Tensor) -> None:
        largest = weight.abs().amax(dim=1)
        self.scales = (largest / 127).clamp(min=torch.finfo(torch.float32).tiny).bfloat16()
        self.codes = (weight / self.scales.float()[:, None]).round().clamp(-128, 127).to(torch.int8)

    def __call__(self, rows: Tensor) -> Tensor:
        return torch._weight_int8pack_mm(rows.bfloat16(), self.codes, self.scales)


class PackedHead:
    """An output head by a packed product. Where that is coarse, its best candidates are computed again in float32.

    Around a logit of 20 bfloat16 knows steps of 0.125 only: the best tokens would tie. The second look costs a
    few percent of the first and takes two thirds of its error away.
    """

    NUM_REFINED = 128

    def __init__(self, product: Linear, weight: Tensor, *, is_coarse: bool) -> None:
        self.weight = weight
        self._product = product
        self._count = min(self.NUM_REFINED, len(weight)) if is_coarse else 0

    def __call__(self, rows: Tensor) -> Tensor:
        """rows [n, width] float32 -> logits [n, vocabulary] float32."""
        logits = self._product(rows).float()
        if not self._count:
            return logits
        best = logits.topk(self._count, sorted=False).indices
        # Row by row: a batched product sums a single row in another order than several.
        for row, ids, state in zip(logits, best, rows, strict=True):
            row[ids] = torch.mv(self.weight[ids], state)
        return logits


class Int4Linear:
    """Weights in four bits, groups of 32, repacked code by code from the file; activations in bfloat16.

    The kernel computes (code - 8) * scale + zero, the file says code * scale + minimum: so
    zero = minimum + 8 * scale. Scale and zero are kept in bfloat16, the only rounding there is.
    """

    ROWS = 16
    """The kernel wants a multiple of so many."""

    def __init__(self, weight: FourBit) -> None:
        codes = torch.from_numpy(weight.codes.astype(np.int32))
        zeros = weight.minimums + 8 * weight.scales
        by_group = np.stack([weight.scales.T, zeros.T], axis=-1)
        self.packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes, 1)
        self.scales_and_zeros = torch.from_numpy(np.ascontiguousarray(by_group)).bfloat16()

    def __call__(self, rows: Tensor) -> Tensor:
        product: Tensor = torch._weight_int4pack_mm_for_cpu(rows.bfloat16(), self.packed, GROUP, self.scales_and_zeros)
        return product


class Biased:
    """A product and a bias added to each of its rows: in float32, for a bias can be far larger than the products."""

    def __init__(self, product: Linear, bias: Tensor) -> None:
        self._product = product
        self._bias = bias

    def __call__(self, rows: Tensor) -> Tensor:
        return self._product(rows).float().add_(self._bias)

    def columns(self, start: int, stop: int) -> Linear:
        return Biased(columns(self._product, start, stop), self._bias[start:stop])


def columns(product: Linear, start: int, stop: int) -> Linear:
    """The output columns start to stop - 1 of a product, to the same bits: without computing the others where the
    kernel is known to give each column alone what it gives among them."""
    if isinstance(product, Biased) or (isinstance(product, PackedLinear) and start % LANES == stop % LANES == 0):
        return product.columns(start, stop)
    return lambda rows: product(rows)[:, start:stop]


def make_linear(
    kind: str, checkpoint: Checkpoint, names: Sequence[str], device: torch.device, *, biased: bool = False
) -> Linear:
    """One product with the named matrices, one under the other, by the kernel float32, bfloat16, int8, int4 or native.

    `biased`: plus the vectors `<name>.bias`, as float32.
    """
    product = _make_product(kind, checkpoint, names, device)
    if not biased:
        return product
    bias = np.concatenate([checkpoint.tensor(f"{name}.bias") for name in names])
    return Biased(product, torch.from_numpy(bias).to(device))


def _make_product(kind: str, checkpoint: Checkpoint, names: Sequence[str], device: torch.device) -> Linear:
    """int4 and native take matrices in four bits as the file packs them; what is not in four bits there, or does not
    fill the kernel, is kept at eight, and what does not fill that one in float32."""
    if kind in ("int4", "native"):
        packed = [matrix for name in names if (matrix := checkpoint.four_bit(name)) is not None]
        if len(packed) == len(names) and sum(len(matrix.codes) for matrix in packed) % Int4Linear.ROWS == 0:
            matrix = FourBit.concatenate(packed)
            return Int4Linear(matrix) if kind == "int4" else PackedLinear(matrix)
    dense = torch.from_numpy(np.concatenate([checkpoint.tensor(name) for name in names]))
    if kind == "native":
        return PackedLinear(dense.numpy())
    if kind in ("int4", "int8") and dense.shape[1] % Int8Linear.COLUMNS == 0:
        return Int8Linear(dense)
    return DenseLinear(dense.to(device, torch.bfloat16 if kind == "bfloat16" else torch.float32))


def make_head(kind: str, weight: Tensor) -> DenseLinear | PackedHead:
    """The product with the matrix of the vocabulary, float32 [vocabulary, width]: float32, bfloat16, int8, native."""
    if kind == "int8" and weight.shape[1] % Int8Linear.COLUMNS == 0:
        return PackedHead(Int8Linear(weight), weight, is_coarse=True)
    if kind == "native":
        packed = PackedLinear(weight.numpy())
        return PackedHead(packed, weight, is_coarse=not packed.is_exact)
    return DenseLinear(weight.to(torch.bfloat16 if kind == "bfloat16" else torch.float32))
