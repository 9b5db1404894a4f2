"""Rotary positions: every pair of numbers of a query or key is turned by an angle that grows with position."""

import torch
from torch import Tensor


def rotary_angles(positions: Tensor, head_width: int, base: float) -> Tensor:
    """Angles in radians, [positions, head_width / 2]: position * base^(-2j / head_width) for pair j.

    Computed in float64: at position 8,000 float32 would lose three digits of the fast pairs. Su et al. (2021).
    """
    exponents = torch.arange(0, head_width, 2, dtype=torch.float64, device=positions.device) / head_width
    return positions.double()[:, None] * base ** (-exponents)


def rotary_table(context_length: int, head_width: int, base: float) -> Tensor:
    """cos + i sin of every position's angles, complex64 [context_length, head_width / 2]."""
    angles = rotary_angles(torch.arange(context_length), head_width, base)
    return torch.polar(torch.ones_like(angles), angles).to(torch.complex64)


def rotate(vectors: Tensor, turns: Tensor) -> Tensor:
    """Turns every adjacent pair (2j, 2j + 1) of each head by its angle, in place; returns `vectors`.

    vectors float32 [positions, heads, head_width], turns complex64 [positions, head_width / 2]. A pair is one
    complex number, so the turn is one multiplication.
    """
    pairs = torch.view_as_complex(vectors.view(*vectors.shape[:-1], -1, 2))
    pairs.mul_(turns[:, None])
    return vectors
