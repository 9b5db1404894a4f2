"""Weights as GGUF packs them: every kind that is read, and those that go into a packed kernel code by code."""

from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Kind

from inference.checkpoint import UnsupportedCheckpoint, load_checkpoint
from inference.model.linear import Int4Linear, Int8Linear, make_linear
from tests.inference.foreign import make_model, write_gguf
from tests.inference.test_architectures import expected_logits, our_logits

PACKED = [Kind.F16, Kind.BF16, Kind.Q4_0, Kind.Q4_1, Kind.Q5_0, Kind.Q5_1, Kind.Q8_0, Kind.Q4_K, Kind.Q5_K, Kind.Q6_K]
WIDE = {"num_hidden_layers": 1, "hidden_size": 256, "intermediate_size": 256, "num_attention_heads": 4}
"""Sizes that every kind of block divides."""


@pytest.mark.parametrize("kind", PACKED, ids=[kind.name for kind in PACKED])
def test_packed_weights_compute_what_they_are_read_back_as(kind: Kind, tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    model = make_model("Qwen2", **WIDE)
    write_gguf(path, "qwen2", model, kind)
    assert torch.allclose(our_logits(load_checkpoint(path)), expected_logits(model), atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("kind", [Kind.Q4_0, Kind.Q4_1, Kind.Q4_K], ids=lambda kind: kind.name)
@pytest.mark.parametrize("architecture", ["Llama", "Qwen2"])
def test_four_bits_are_repacked_code_by_code(kind: Kind, architecture: str, tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    write_gguf(path, architecture.lower(), make_model(architecture, **WIDE), kind)
    checkpoint = load_checkpoint(path)
    for name in ("q", "k", "v", "output", "gate", "up", "down"):
        packed = checkpoint.four_bit(f"layers.0.{name}")
        assert packed is not None
        restored = packed.codes * packed.scales.repeat(32, 1) + packed.minimums.repeat(32, 1)
        # Q4_K adds in another order than the reader of the format.
        assert np.allclose(restored, checkpoint.tensor(f"layers.0.{name}"), rtol=0, atol=1e-8)
    names, device = [f"layers.0.{name}" for name in "qkv"], torch.device("cpu")
    product, exact = (make_linear(kernel, checkpoint, names, device) for kernel in ("int4", "float32"))
    assert isinstance(product, Int4Linear)
    rows = torch.randn(5, 256, generator=torch.Generator().manual_seed(3))
    error = product(rows).float() - exact(rows)
    assert float(error.norm() / exact(rows).norm()) < 0.01


def test_what_a_four_bit_kernel_cannot_hold_is_kept_in_eight(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    write_gguf(path, "llama", make_model("Llama", **WIDE | {"num_key_value_heads": 1, "head_dim": 8}), Kind.Q4_0)
    product = make_linear("int4", load_checkpoint(path), ["layers.0.k"], torch.device("cpu"))
    assert isinstance(product, Int8Linear)  # 8 rows, and the kernel wants a multiple of 16


def test_a_kind_that_cannot_be_read_back_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    write_gguf(path, "llama", make_model("Llama", **WIDE), Kind.Q4_0)
    content = bytearray(path.read_bytes())
    name = b"blk.0.ffn_up.weight"
    # After the name come the number of dimensions, the dimensions and the kind.
    at = content.index(name) + len(name) + 4 + 2 * 8
    content[at : at + 4] = Kind.Q8_1.to_bytes(4, "little")
    path.write_bytes(content)
    with pytest.raises(UnsupportedCheckpoint, match=r"tensor blk\.0\.ffn_up\.weight in Q8_1"):
        load_checkpoint(path)
