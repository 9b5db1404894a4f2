"""Which kernel computes the matrix products, chosen by trying them on this processor."""

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np
import torch

from inference.checkpoint import Checkpoint, FourBit, ModelConfig
from inference.checkpoint.weights import GROUP
from inference.model.compiled import NotCompiled, machine_key, products
from inference.model.linear import DenseLinear, Int4Linear, Int8Linear, Linear
from inference.model.packed import PackedLinear, fits

KERNELS = ("float32", "bfloat16", "int8", "int4", "native")
DEVICES = ("cpu", "cuda")
_PROBE_ROWS = 32
_PROBE_ROUNDS = 3
_ADVANTAGE = 1.25
"""How much quicker a kernel must be than one listed before it: near-ties must not flip from start to start."""


@dataclass(frozen=True)
class KernelPlan:
    """How the products of one decoder are computed. Numbers depend on it, so it is part of the fingerprint."""

    device: str
    linear: str
    """Kernel of the projections inside the layers."""
    head: str
    """Kernel of the output head, which four bits would cost ten times the accuracy of eight."""
    threads: int
    reason: str
    """Why this plan, in one sentence for the person who reads it."""

    def __str__(self) -> str:
        return f"{self.device}/{self.linear}+{self.head}"


def make_plan(
    checkpoint: Checkpoint, device: str = "auto", kernel: str = "auto", remembered: Path | None = None
) -> KernelPlan:
    """The plan for a checkpoint on this machine; "auto" decides by what is there and what is fast. What was found to
    be fast is kept in the file `remembered`, if one is named, for checkpoint, processor and library.

    Raises ValueError if the device or kernel is unknown or cannot work here.
    """
    if device not in ("auto", *DEVICES):
        raise ValueError(f"device {device!r}: must be auto, {' or '.join(DEVICES)}")
    if kernel not in ("auto", *KERNELS):
        raise ValueError(f"kernel {kernel!r}: must be auto, {', '.join(KERNELS)}")
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("device 'cuda': torch sees no such accelerator here")
    if device == "cuda" and kernel in ("int8", "int4", "native"):
        raise ValueError(f"kernel {kernel!r}: packed kernels run on the cpu only")
    if kernel == "native" and (objection := _objection_to_native(checkpoint.config)) is not None:
        raise ValueError(f"kernel 'native': {objection}")
    reason = "asked for"
    if kernel == "auto":
        if device == "cuda":
            kernel, reason = "bfloat16", "an accelerator's native type"
        else:
            kernel, reason = _recall(checkpoint, remembered)
    head = "int8" if kernel == "int4" else kernel
    # One thread: on busy cores two wait for each other in every product.
    return KernelPlan(device=device, linear=kernel, head=head, threads=1, reason=reason)


def _recall(checkpoint: Checkpoint, remembered: Path | None) -> tuple[str, str]:
    """What was fastest when it was last tried, or is now."""
    if remembered is None:
        return _fastest(checkpoint)
    chooser = Path(__file__).read_bytes() + machine_key().encode()
    key = hashlib.sha256(chooser + f"{checkpoint.sha256} {torch.__version__}".encode()).hexdigest()
    known: dict[str, tuple[str, str]] = {}
    with suppress(OSError, ValueError, TypeError):  # never tried, or not readable
        known = dict(json.loads(remembered.read_text()))
    if key not in known:
        known[key] = _fastest(checkpoint)
        with suppress(OSError):  # then it is tried again next time
            remembered.parent.mkdir(parents=True, exist_ok=True)
            remembered.write_text(json.dumps(known, indent=1))
    kernel, reason = known[key]
    return kernel, reason


def _objection_to_native(config: ModelConfig) -> str | None:
    """Why this model cannot run on the compiled products here, if it cannot."""
    if not all(fits(out, width) for out, width in (*_sizes(config), (config.vocabulary, config.width))):
        return "the model's sizes are not whole groups of 16 outputs and 32 inputs"
    try:
        products()
    except NotCompiled as error:
        return str(error)
    return None


def _fastest(checkpoint: Checkpoint) -> tuple[str, str]:
    """Times one layer's products with each kernel (well under two seconds) and names the quickest.

    Between near-equals the one listed first: in earnest the weights come from memory, here from a cache.

    The cost is that of one decoded token (a single row) and one prompt token (a share of many rows). A kernel
    whose rows depend on the row count is not eligible.
    """
    costs = {name: float("inf") for name in _candidates(checkpoint)}
    layers = {name: _layer_products(name, checkpoint.config) for name in costs}
    for name, matrices in layers.items():
        if not all(_row_count_is_neutral(product, width) for product, width in matrices):
            del costs[name]
    # Interleaved, least of several: a neighbour waking up slows all alike or is left out.
    for _ in range(_PROBE_ROUNDS):
        for name in costs:
            costs[name] = min(costs[name], _cost(layers[name]))
    best = next(name for name in costs if costs[name] <= min(costs.values()) * _ADVANTAGE)
    measured = ", ".join(f"{name} {cost * 1e6:.0f}" for name, cost in costs.items())
    return best, f"quick here; microseconds a layer for one decoded and one prompt token: {measured}"


def _candidates(checkpoint: Checkpoint) -> list[str]:
    """Kernels worth trying: the exact small one first, then by bytes. Four bits only where the file has them, for else
    they would be less exact than eight."""
    native = ["native"] if _objection_to_native(checkpoint.config) is None else []
    fills = all(out % Int4Linear.ROWS == 0 for out, _ in _sizes(checkpoint.config))
    packed = fills and checkpoint.four_bit("layers.0.gate") is not None
    eight = all(width % Int8Linear.COLUMNS == 0 for _, width in _sizes(checkpoint.config))
    return [*native, *(["int4" if packed else "int8"] if eight else []), "float32"]


def _sizes(config: ModelConfig) -> list[tuple[int, int]]:
    """Rows and columns of the matrices of one layer's products."""
    return [
        (config.qkv_width, config.width),
        (config.width, config.query_width),
        (2 * config.feed_forward_width, config.width),
        (config.width, config.feed_forward_width),
    ]


def _layer_products(kernel: str, config: ModelConfig) -> list[tuple[Linear, int]]:
    """Products of one layer's sizes on made-up weights, each with its input width."""
    make: dict[str, Callable[[int, int], Linear]] = {
        "native": lambda out, width: PackedLinear(_made_up_four_bit(out, width)),
        "int4": lambda out, width: Int4Linear(_made_up_four_bit(out, width)),
        "int8": lambda out, width: Int8Linear(torch.rand(out, width)),
        "float32": lambda out, width: DenseLinear(torch.rand(out, width)),
    }
    return [(make[kernel](out, width), width) for out, width in _sizes(config)]


def _made_up_four_bit(out: int, width: int) -> FourBit:
    scales = np.full((out, width // GROUP), 0.01, dtype=np.float32)
    codes = np.arange(out * width, dtype=np.int64).reshape(out, width) % 16
    return FourBit(codes.astype(np.uint8), scales, -8 * scales)


def _row_count_is_neutral(product: Linear, width: int) -> bool:
    rows = torch.rand(_PROBE_ROWS, width, generator=torch.Generator().manual_seed(0))
    return torch.equal(product(rows[:1]), product(rows)[:1])


def _cost(products: list[tuple[Linear, int]]) -> float:
    """Seconds for one row alone plus one row's share of many."""
    seconds = 0.0
    for count in (1, _PROBE_ROWS):
        inputs = [torch.rand(count, width) for _, width in products]
        started = perf_counter()
        for (product, _), rows in zip(products, inputs, strict=True):
            product(rows)
        seconds += (perf_counter() - started) / count
    return seconds
