"""Queries, keys and values of some positions, in one piece of memory."""

import torch

from inference.checkpoint.config import ModelConfig
from inference.model.rope import as_pairs


class QKV:
    """What a layer projects, and then normalises and turns in place, with the views of it that attention works on.

    One object serves all layers of a step, one after the other: making a view costs as much as a small product.
    """

    def __init__(self, config: ModelConfig, positions: int, device: torch.device) -> None:
        turning = config.n_heads + config.n_kv_heads
        self.rows = torch.empty(positions, turning + config.n_kv_heads, config.head_width, device=device)
        """float32 [positions, heads + 2 kv heads, head_width], as one projection computes them."""
        self.q = self.rows[:, : config.n_heads]
        self.k = self.rows[:, config.n_heads : turning]
        self.v = self.rows[:, turning:]
        self.keys_and_values = self.rows[:, config.n_heads :]
        self.pairs = as_pairs(self.rows[:, :turning])
        """What rotary positions turn: complex64 [positions, heads + kv heads, head_width / 2]."""
