"""The feed-forward block of a layer: a gated pair of projections and one back."""

import torch.nn.functional as F
from torch import Tensor

from inference.checkpoint.config import Activation, ModelConfig
from inference.model.clock import SILENT, Clock
from inference.model.linear import Linear
from inference.model.norm import RMSNorm


def gated_activation(gate: Tensor, up: Tensor, activation: Activation) -> Tensor:
    """The gate bent by its activation, times up. Same shapes throughout. Shazeer (2020), "SwiGLU" and "GEGLU".

    silu(x) = x / (1 + exp(-x)); gelu_tanh(x) = x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
    """
    return (F.silu(gate) if activation == "silu" else F.gelu(gate, approximate="tanh")) * up


class FeedForward:
    """The feed-forward block of one layer."""

    def __init__(
        self, config: ModelConfig, *, norm: RMSNorm, gate_up: Linear, down: Linear, post_norm: RMSNorm | None = None
    ) -> None:
        self.config = config
        self.norm = norm
        self.gate_up = gate_up
        self.down = down
        self.post_norm = post_norm

    def project(self, normed: Tensor) -> tuple[Tensor, Tensor]:
        """Gate and up, each [positions, feed_forward_width]."""
        gate, up = self.gate_up(normed).chunk(2, dim=-1)
        return gate, up

    def update(self, activation: Tensor) -> Tensor:
        """What the activations add to the states: [positions, feed_forward_width] -> [positions, width]."""
        update = self.down(activation)
        return update if self.post_norm is None else self.post_norm(update.float())

    def __call__(self, states: Tensor, clock: Clock = SILENT) -> Tensor:
        """What the block adds to the states: [positions, width] -> [positions, width]."""
        normed = self.norm(states)
        clock.mark("residual_norm")
        update = self.update(gated_activation(*self.project(normed), self.config.activation))
        clock.mark("feed_forward")
        return update
