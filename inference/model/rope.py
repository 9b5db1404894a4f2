"""Rotary positions: every pair of numbers of a query or key is turned by an angle that grows with position."""

import math

import torch
from torch import Tensor

from inference.checkpoint.rotary import LinearScaling, ListedScaling, Llama3Scaling, Rotary, YarnScaling


def rotary_angles(positions: Tensor, head_width: int, rotary: Rotary) -> Tensor:
    """Angles in radians, [positions, head_width / 2]: position * base^(-2j / head_width) for pair j, scaled.

    Computed in float64: at position 8,000 float32 would lose three digits of the fast pairs. Su et al. (2021).
    """
    return positions.double()[:, None] * _frequencies(rotary, head_width).to(positions.device)


def rotary_table(context_length: int, head_width: int, rotary: Rotary) -> Tensor:
    """cos + i sin of every position's angles, times the magnitude: complex64 [context_length, 1, head_width / 2]."""
    angles = rotary_angles(torch.arange(context_length), head_width, rotary)
    return torch.polar(torch.full_like(angles, rotary.magnitude), angles).to(torch.complex64)[:, None]


def as_pairs(vectors: Tensor) -> Tensor:
    """Every adjacent pair (2j, 2j + 1) of float32 [positions, heads, head_width] as one complex number: a view."""
    return torch.view_as_complex(vectors.view(*vectors.shape[:-1], -1, 2))


def rotate(pairs: Tensor, turns: Tensor) -> Tensor:
    """Turns every pair of each head by its angle, in place; returns `pairs`.

    pairs complex64 [positions, heads, head_width / 2], turns complex64 [positions, 1, head_width / 2]. A pair is one
    complex number, so the turn is one multiplication.
    """
    return pairs.mul_(turns)


def _frequencies(rotary: Rotary, head_width: int) -> Tensor:
    """Radians a position turns each pair by, float64 [head_width / 2]."""
    exponents = torch.arange(0, head_width, 2, dtype=torch.float64) / head_width
    plain = rotary.base ** (-exponents)
    match rotary.scaling:
        case None:
            return plain
        case LinearScaling(factor):
            return plain / factor
        case ListedScaling(divisors):
            return plain / torch.tensor(divisors, dtype=torch.float64)
        case Llama3Scaling() as scaling:
            kept = _kept_by_llama3(plain, scaling)
        case YarnScaling() as scaling:
            kept = _kept_by_yarn(rotary.base, head_width, scaling)
    return torch.lerp(plain / scaling.factor, plain, kept)


def _kept_by_llama3(plain: Tensor, scaling: Llama3Scaling) -> Tensor:
    """How much of each pair's own frequency stays, 0 to 1, by how often it turns within the original context."""
    turns = scaling.original_context * plain / (2 * math.pi)
    between = scaling.high_frequency_factor - scaling.low_frequency_factor
    return ((turns - scaling.low_frequency_factor) / between).clamp(0, 1)


def _kept_by_yarn(base: float, head_width: int, scaling: YarnScaling) -> Tensor:
    """How much of each pair's own frequency stays: 1 up to the pair that turns `beta_fast` times within the
    original context, 0 from the one that turns `beta_slow` times, a straight line between."""

    def pair_with(turns: float) -> float:
        return head_width * math.log(scaling.original_context / (turns * 2 * math.pi)) / (2 * math.log(base))

    first, last = pair_with(scaling.beta_fast), pair_with(scaling.beta_slow)
    if scaling.whole_pairs:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, head_width - 1)
    pairs = torch.arange(head_width // 2, dtype=torch.float64)
    return 1 - ((pairs - first) / max(last - first, 0.001)).clamp(0, 1)
