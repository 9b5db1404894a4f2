"""Memory outside the cache for the keys and values of sequences that had to make room."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from inference.cache import KVCache


class Aside:
    """Keeps up to `num_blocks` blocks, in the machine's own memory.

    Bits are copied, so a sequence that comes back goes on as if nothing had happened.
    """

    def __init__(self, cache: KVCache, num_blocks: int) -> None:
        self.num_blocks = self.num_free = num_blocks
        self._cache = cache
        self._kept: dict[str, tuple[int, Tensor | None]] = {}

    def take(self, name: str, blocks: Sequence[int]) -> None:
        """Copies what is in the blocks. There must be room for them."""
        self._kept[name] = (len(blocks), self._cache.copy_out(blocks) if blocks else None)
        self.num_free -= len(blocks)

    def give_back(self, name: str, blocks: Sequence[int]) -> None:
        """Copies back into the first of these blocks what was taken under this name, and keeps it no longer."""
        count, rows = self._kept[name]
        if rows is not None:
            self._cache.copy_in(blocks[:count], rows)
        self.drop(name)

    def drop(self, name: str) -> None:
        count, _ = self._kept.pop(name)
        self.num_free += count
