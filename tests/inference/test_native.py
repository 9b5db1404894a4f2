"""The products compiled on the spot: what they compute, and what happens where they cannot be had."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from inference.checkpoint import Checkpoint, FourBit
from inference.model import compiled, plan
from inference.model.compiled import NotCompiled, products
from inference.model.linear import Biased, Linear, columns
from inference.model.packed import PackedLinear
from inference.model.plan import make_plan
from tests.inference.test_kernels import ROWS, dense, four_bit

EXACT = 1e-4
"""Relative: inputs are rounded to 15 bits."""


@pytest.fixture
def product(request: pytest.FixtureRequest) -> tuple[PackedLinear, torch.Tensor]:
    """Packed in that many bits, and what it was packed from: numbers that float16 scales hold exactly."""
    if request.param == 4:
        rough = four_bit()
        scales, minimums = (part.astype(np.float16).astype(np.float32) for part in (rough.scales, rough.minimums))
        matrix = FourBit(rough.codes, scales, minimums)
        return PackedLinear(matrix), dense(matrix)
    codes = np.random.default_rng(5).integers(-127, 128, (96, 576)).astype(np.float32)
    codes[:, ::32] = 127
    codes /= 64
    packed = PackedLinear(codes)
    assert packed.is_exact
    return packed, torch.from_numpy(codes)


both = pytest.mark.parametrize("product", [4, 8], indirect=True, ids=["four bits", "eight bits"])


@pytest.mark.native
@both
def test_a_product_is_that_with_the_weights_of_the_file(product: tuple[PackedLinear, torch.Tensor]) -> None:
    packed, weight = product
    expected = ROWS.double() @ weight.double().T
    assert float((packed(ROWS) - expected).norm() / expected.norm()) < EXACT


@pytest.mark.native
def test_a_files_four_bits_are_kept_as_they_are(checkpoint: Checkpoint) -> None:
    matrix = checkpoint.four_bit("layers.7.q")
    assert matrix is not None
    expected = ROWS.double() @ torch.from_numpy(checkpoint.tensor("layers.7.q")).double().T
    assert float((PackedLinear(matrix)(ROWS) - expected).norm() / expected.norm()) < EXACT


@pytest.mark.native
def test_a_files_eight_bits_are_kept_as_they_are(checkpoint: Checkpoint) -> None:
    assert PackedLinear(checkpoint.tensor("embedding")[:1024]).is_exact
    assert not PackedLinear(checkpoint.tensor("layers.7.q")).is_exact


@pytest.mark.native
@both
def test_a_row_does_not_depend_on_its_neighbours(product: tuple[PackedLinear, torch.Tensor]) -> None:
    packed, _ = product
    expected = packed(ROWS)
    for count in (1, 2, 3, 4, 5, 7, 8, 31, 128, 299):
        assert torch.equal(packed(ROWS[:count]), expected[:count]), count
    assert torch.equal(packed(torch.cat([ROWS[:1], 1e6 * ROWS[1:4]]))[:1], expected[:1])


@pytest.mark.native
@both
@pytest.mark.parametrize("biased", [False, True], ids=["plain", "biased"])
def test_some_columns_alone_are_what_they_are_among_all(
    product: tuple[PackedLinear, torch.Tensor], biased: bool
) -> None:
    whole: Linear = product[0]
    number = whole(ROWS[:1]).shape[1]
    if biased:
        whole = Biased(whole, torch.arange(number, dtype=torch.float32))
    for start, stop in ((0, 16), (32, number), (5, 23)):  # the last are not packed side by side
        assert torch.equal(columns(whole, start, stop)(ROWS[:9]), whole(ROWS[:9])[:, start:stop])


@pytest.mark.native
@both
def test_rows_of_zeros_and_of_what_is_no_number(product: tuple[PackedLinear, torch.Tensor]) -> None:
    packed, _ = product
    assert not packed(torch.zeros(2, 576)).any()
    broken = ROWS[:2].clone()
    broken[0, 5] = float("nan")
    result = packed(broken)
    assert result[0].isnan().all()
    assert torch.equal(result[1:], packed(ROWS[1:2]))


def test_without_a_compiler_the_kernels_of_torch_remain(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, nothing_compiled: Path
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ValueError, match="kernel 'native': no C compiler"):
        make_plan(checkpoint, "cpu", "native")
    assert make_plan(checkpoint, "cpu").linear != "native"


def test_what_the_processor_lacks_is_said(monkeypatch: pytest.MonkeyPatch, nothing_compiled: Path) -> None:
    source = nothing_compiled / "packed_products.c"
    source.write_text("#error the processor has neither AVX-512 VNNI nor AVX2\n")
    monkeypatch.setattr(compiled, "SOURCE", source)
    with pytest.raises(NotCompiled, match=r"refused packed_products\.c: .*neither AVX-512 VNNI nor AVX2"):
        products()


def test_what_was_fast_is_remembered_for_checkpoint_and_machine(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    remembered = tmp_path / "cache" / "kernels.json"
    tried: list[str] = []

    def fastest(checkpoint: Checkpoint) -> tuple[str, str]:
        tried.append(checkpoint.name)
        return "int8", "quick here"

    monkeypatch.setattr(plan, "_fastest", fastest)
    plans = [make_plan(checkpoint, "cpu", "auto", remembered) for _ in range(2)]
    assert plans[0] == plans[1]
    assert (plans[0].linear, plans[0].reason) == ("int8", "quick here")
    assert len(tried) == 1
    monkeypatch.setattr(plan, "machine_key", lambda: "another processor")
    make_plan(checkpoint, "cpu", "auto", remembered)
    remembered.write_text("{")
    make_plan(checkpoint, "cpu", "auto", remembered)
    assert len(tried) == 3


@pytest.fixture
def nothing_compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """An empty data folder, and a process that has loaded nothing yet."""
    monkeypatch.setenv("WEBTRACE_DATA", str(tmp_path))
    products.cache_clear()
    yield tmp_path
    products.cache_clear()
