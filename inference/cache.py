"""Memory for keys, values and residual streams, addressed by the same block ids.

These classes hold tensors only. Which sequence owns which block is decided by the allocator.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from inference.checkpoint.config import ModelConfig

ALIGNMENT = 64
"""Bytes, as torch aligns its own memory: products may sum in another order where rows begin elsewhere."""

Slots = slice | Tensor
"""Where positions lie in a pool: a slice where the blocks are neighbours (read as a view), else indices."""


def slots_of(blocks: Sequence[int], start: int, stop: int, block_size: int, device: torch.device) -> Slots:
    """The slots of positions start to stop - 1 of the sequence that owns `blocks`, in order."""
    if not 0 <= start < stop <= len(blocks) * block_size:
        raise ValueError(
            f"positions {start} to {stop - 1} do not lie in {len(blocks)} blocks of {block_size} positions"
        )
    first, last = start // block_size, (stop - 1) // block_size
    used = list(blocks[first : last + 1])
    if used == list(range(used[0], used[0] + len(used))):
        begin = used[0] * block_size + start % block_size
        return slice(begin, begin + stop - start)
    all_slots = torch.tensor(used)[:, None] * block_size + torch.arange(block_size)
    offset = start - first * block_size
    return all_slots.flatten()[offset : offset + stop - start].to(device)


def _blank(shape: Sequence[int], device: torch.device | str) -> Tensor:
    """Zeros, float32. On the CPU a page takes memory (and time) only once it is written: a pool costs what it holds."""
    if torch.device(device).type != "cpu":
        return torch.zeros(shape, device=device)
    num_bytes = math.prod(shape) * torch.float32.itemsize
    memory = np.zeros(num_bytes + ALIGNMENT, dtype=np.uint8)
    begin = -memory.ctypes.data % ALIGNMENT
    return torch.from_numpy(memory)[begin : begin + num_bytes].view(torch.float32).view(*shape)


class Pool:
    """Blocks of rows: `rows` is [..., slots, width], a slot for each position of each block."""

    def __init__(self, rows: Tensor, num_blocks: int, block_size: int) -> None:
        self.rows = rows
        self.num_blocks = num_blocks
        self.block_size = block_size

    @property
    def bytes_per_token(self) -> int:
        """Bytes one position takes over all layers."""
        *layers, _, width = self.rows.shape
        return math.prod(layers) * width * self.rows.element_size()

    @property
    def bytes_per_block(self) -> int:
        """Bytes one block takes over all layers."""
        return self.bytes_per_token * self.block_size

    def slots(self, blocks: Sequence[int], start: int, stop: int) -> Slots:
        """See slots_of."""
        return slots_of(blocks, start, stop, self.block_size, self.rows.device)


class KVCache(Pool):
    """Keys (already turned to their positions) and values of every layer, float32.

    `rows` is [n_layers, 2 * n_kv_heads, slots, head_width]: the key heads, then the value heads, so that both
    are written at once and the heads of neighbouring blocks are read without a copy.
    """

    def __init__(
        self, config: ModelConfig, num_blocks: int, block_size: int = 64, *, device: torch.device | str = "cpu"
    ) -> None:
        shape = (config.n_layers, 2 * config.n_kv_heads, num_blocks * block_size, config.head_width)
        super().__init__(_blank(shape, device), num_blocks, block_size)
        self.n_kv_heads = config.n_kv_heads

    def window(self, blocks: Sequence[int], start: int, stop: int) -> Window:
        """Positions 0 to stop - 1 of the sequence that owns `blocks`, of which those from `start` on are new."""
        return Window(self, self.slots(blocks, start, stop), self.slots(blocks, 0, stop))

    def copy_out(self, blocks: Sequence[int]) -> Tensor:
        """A copy of the blocks, in order and in the machine's own memory."""
        return self.rows[:, :, self.slots(blocks, 0, len(blocks) * self.block_size)].to("cpu", copy=True)

    def copy_in(self, blocks: Sequence[int], copied: Tensor) -> None:
        """The way back, into as many blocks."""
        self.rows[:, :, self.slots(blocks, 0, len(blocks) * self.block_size)] = copied.to(self.rows.device)

    def read(self, layer: int, slots: Slots) -> tuple[Tensor, Tensor]:
        """Keys and values of the slots, each [n_kv_heads, positions, head_width]."""
        rows = self.rows[layer, :, slots]
        return rows[: self.n_kv_heads], rows[self.n_kv_heads :]


class Window:
    """One sequence's keys and values as one step sees them: new positions are written, all are read.

    Where they lie side by side, the views of all layers are made at once: one by one they would cost several times
    as much, in every layer of every step.
    """

    def __init__(self, cache: KVCache, new: Slots, all_slots: Slots) -> None:
        self._cache, self._new, self._all = cache, new, all_slots
        self._written = cache.rows[:, :, new].unbind(0) if isinstance(new, slice) else None
        self._read = None
        if isinstance(all_slots, slice):
            keys, values = torch.split(cache.rows[:, :, all_slots], cache.n_kv_heads, dim=1)
            self._read = list(zip(keys.unbind(0), values.unbind(0), strict=True))

    def write(self, layer: int, keys_and_values: Tensor) -> None:
        """Stores the new positions' [2 * n_kv_heads, positions, head_width]."""
        if self._written is not None:
            self._written[layer].copy_(keys_and_values)
        else:
            self._cache.rows[layer, :, self._new] = keys_and_values

    def read(self, layer: int) -> tuple[Tensor, Tensor]:
        """Keys and values of all positions, each [n_kv_heads, positions, head_width]."""
        return self._cache.read(layer, self._all) if self._read is None else self._read[layer]


class ResidualPool(Pool):
    """The residual stream entering every layer, and the one leaving the last (before the final norm).

    `rows` is [n_layers + 1, slots, width] in float32: exact, so that whatever is derived from it agrees with
    what the running model computed.
    """

    def __init__(
        self, config: ModelConfig, num_blocks: int, block_size: int = 64, *, device: torch.device | str = "cpu"
    ) -> None:
        shape = (config.n_layers + 1, num_blocks * block_size, config.width)
        super().__init__(_blank(shape, device), num_blocks, block_size)

    def write(self, slots: Slots, states: Tensor) -> None:
        """Stores [n_layers + 1, positions, width]."""
        self.rows[:, slots] = states

    def place(self, blocks: Sequence[int], start: int, stop: int) -> Tensor | None:
        """The memory of positions start to stop - 1, [n_layers + 1, positions, width]; None where it is scattered."""
        slots = self.slots(blocks, start, stop)
        return self.rows[:, slots] if isinstance(slots, slice) else None

    def read(self, layer: int, slots: Slots) -> Tensor:
        """The states entering that layer (n_layers: leaving the last), [positions, width]."""
        return self.rows[layer, slots]
