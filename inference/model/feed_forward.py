"""The feed-forward block of a layer: a gated pair of projections and one back."""

import torch.nn.functional as F
from torch import Tensor

from inference.checkpoint.config import ModelConfig
from inference.model.clock import StageClock
from inference.model.linear import Linear
from inference.model.norm import RMSNorm


def gated_activation(gate: Tensor, up: Tensor) -> Tensor:
    """silu(gate) * up, where silu(x) = x / (1 + exp(-x)). Shazeer (2020), "SwiGLU". Same shapes throughout."""
    return F.silu(gate) * up


class FeedForward:
    """The feed-forward block of one layer."""

    def __init__(self, config: ModelConfig, *, norm: RMSNorm, gate_up: Linear, down: Linear) -> None:
        self.config = config
        self.norm = norm
        self.gate_up = gate_up
        self.down = down

    def project(self, normed: Tensor) -> tuple[Tensor, Tensor]:
        """Gate and up, each [positions, feed_forward_width]."""
        gate, up = self.gate_up(normed).chunk(2, dim=-1)
        return gate, up

    def __call__(self, states: Tensor, clock: StageClock) -> Tensor:
        """What the block adds to the states: [positions, width] -> [positions, width]."""
        normed = self.norm(states)
        clock.mark("residual_norm")
        update = self.down(gated_activation(*self.project(normed)))
        clock.mark("feed_forward")
        return update
