"""The packed kernels against plain arithmetic, and the choice between them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from inference.checkpoint import Checkpoint, FourBit
from inference.model import plan
from inference.model.linear import DenseLinear, Int4Linear, Int8Linear, Linear, PackedHead
from inference.model.plan import make_plan

ROWS = torch.randn(300, 576, generator=torch.Generator().manual_seed(1))


def four_bit() -> FourBit:
    random = np.random.default_rng(2)
    return FourBit(
        random.integers(0, 16, (96, 576)).astype(np.uint8),
        random.uniform(0.001, 0.01, (96, 18)).astype(np.float32),
        random.uniform(-0.1, 0, (96, 18)).astype(np.float32),
    )


def dense(packed: FourBit) -> torch.Tensor:
    return torch.from_numpy(packed.codes * packed.scales.repeat(32, 1) + packed.minimums.repeat(32, 1))


def test_int4_multiplies_by_the_codes_of_the_file() -> None:
    expected = ROWS @ dense(four_bit()).T
    error = Int4Linear(four_bit())(ROWS).float() - expected
    # bfloat16 keeps 8 bits of activations, scales and result: errors of 0.4% each, independent of each other.
    assert float(error.norm() / expected.norm()) < 0.006


def test_int8_rounds_weights_to_127_levels_a_row() -> None:
    weight = dense(four_bit())
    product = Int8Linear(weight)
    restored = product.codes.float() * product.scales.float()[:, None]
    assert bool(((restored - weight).abs() <= 0.51 * product.scales.float()[:, None]).all())
    expected = ROWS @ weight.T
    assert float((product(ROWS).float() - expected).norm() / expected.norm()) < 0.01


@pytest.mark.parametrize(
    "product",
    [
        DenseLinear(dense(four_bit())),
        DenseLinear(dense(four_bit()).bfloat16()),
        Int8Linear(dense(four_bit())),
        Int4Linear(four_bit()),
    ],
    ids=["float32", "bfloat16", "int8", "int4"],
)
def test_a_row_does_not_depend_on_its_neighbours(product: Linear) -> None:
    expected = product(ROWS)
    for count in (1, 2, 3, 4, 5, 8, 31, 128, 131, 299):
        assert torch.equal(product(ROWS[:count]), expected[:count]), count


def test_a_huge_neighbour_changes_nothing() -> None:
    for product in (Int8Linear(dense(four_bit())), Int4Linear(four_bit())):
        assert torch.equal(product(torch.cat([ROWS[:1], ROWS[1:4] * 1000]))[:1], product(ROWS[:1]))


def test_int8_head_knows_its_best_exactly() -> None:
    weight = torch.randn(2000, 576, generator=torch.Generator().manual_seed(3))
    head, expected = PackedHead(Int8Linear(weight), weight, is_coarse=True), ROWS[:7] @ weight.T
    logits = head(ROWS[:7])
    best = expected.topk(20).indices
    assert torch.allclose(logits.gather(1, best), expected.gather(1, best), atol=1e-4)
    assert torch.equal(logits.argmax(1), expected.argmax(1))
    assert float((logits - expected).norm() / expected.norm()) < 0.02
    assert torch.equal(head(ROWS[:1]), logits[:1])


def test_unpacked_codes_are_the_ones_the_reader_dequantises(checkpoint: Checkpoint) -> None:
    packed = checkpoint.four_bit("layers.7.q")
    assert packed is not None
    assert np.array_equal(dense(packed).numpy(), checkpoint.tensor("layers.7.q"))


def test_auto_takes_the_quickest_and_says_why(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "_objection_to_native", lambda config: "not here")
    speed = {Int4Linear: 1.3, DenseLinear: 1.0}
    monkeypatch.setattr(plan, "_cost", lambda products: speed[type(products[0][0])])
    assert make_plan(checkpoint, "cpu").linear == "float32"
    speed[Int4Linear] = 1.2  # a near-tie goes to the one that reads fewer bytes
    chosen = make_plan(checkpoint, "cpu")
    assert (chosen.linear, chosen.head) == ("int4", "int8")
    assert "int4" in chosen.reason
    # A kernel whose rows depend on their number is out, however quick.
    neutral = plan._row_count_is_neutral
    monkeypatch.setattr(
        plan, "_row_count_is_neutral", lambda p, width: not isinstance(p, Int4Linear) and neutral(p, width)
    )
    assert make_plan(checkpoint, "cpu").linear == "float32"


def test_auto_never_squeezes_weights_into_four_bits(checkpoint: Checkpoint) -> None:
    class Dense:
        tensor = checkpoint.source.tensor

        def four_bit(self, name: str) -> None:
            return None

    assert make_plan(replace(checkpoint, source=Dense()), "cpu").linear in ("native", "int8", "float32")


@pytest.mark.parametrize(("device", "kernel"), [("tpu", "auto"), ("cpu", "int3")])
def test_an_unknown_wish_is_refused_with_what_there_is(checkpoint: Checkpoint, device: str, kernel: str) -> None:
    with pytest.raises(ValueError, match="must be auto, "):
        make_plan(checkpoint, device, kernel)
