"""Who owns which block of keys and values, and which computed prompts can be used again.

A block is a fixed number of positions. A prompt's beginning is shared in whole cuts (the decoder's fixed prefill
pieces), so that what was read as a prompt and is reused has the bits that computing it again would give. What was
written by decoding, an earlier answer, is reused too and is marked as such: attention over one row sums in another
order than over a cut of rows. A cut is found by the hash of all token ids up to its end; it is private to its owner,
except where it lies inside the operator's system prompt.
Blocks that nobody uses keep their cut until they are needed, least recently used first.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

Digest = bytes
Span = tuple[int, int]


@dataclass(frozen=True)
class Cut:
    """A computed piece of a sequence. `traced`: its residual streams were recorded too. `decoded`: the positions from
    and to which it was computed token by token, if any."""

    digest: Digest
    blocks: tuple[int, ...]
    traced: bool
    decoded: Span | None


@dataclass
class Prefix:
    """The beginning of a prompt that is computed already, in whole cuts. `decoded`: stretches of its positions, from
    and to, that were computed token by token, as an answer: their last bits differ from a prompt's."""

    blocks: list[int] = field(default_factory=list)
    decoded: list[Span] = field(default_factory=list)


class OutOfBlocks(RuntimeError):
    """Fewer blocks are free than were asked for."""


class BlockAllocator:
    """Hands out block ids 0 to num_blocks - 1; of these, `num_traced` (the lowest) have room for residuals."""

    def __init__(self, num_blocks: int, block_size: int, cut: int, num_traced: int) -> None:
        if cut % block_size:
            raise ValueError(f"block_size {block_size} must divide the cut of {cut} positions.")
        self.num_blocks = num_blocks
        self.num_traced = min(num_traced, num_blocks)
        self.block_size = block_size
        self._cut = cut
        self._references = [0] * num_blocks
        self._times_handed_out = [0] * num_blocks
        self._cuts: OrderedDict[Digest, Cut] = OrderedDict()  # least recently used first
        self._cut_of: dict[int, Cut] = {}

    @property
    def num_free(self) -> int:
        """Blocks nobody refers to, whether or not they still hold a cut."""
        return self.num_free_below(self.num_blocks)

    def num_free_below(self, limit: int) -> int:
        """Free blocks with ids below `limit`."""
        return self._references[:limit].count(0)

    def num_needed(self, num_positions: int) -> int:
        return -(-num_positions // self.block_size)

    def allocate(self, count: int, *, traced: bool = False) -> list[int]:
        """`count` blocks of the caller's own, neighbours where possible: those are read without a copy.

        `traced` asks for blocks with room for residuals; others come from the far end first. Raises OutOfBlocks.
        """
        limit = self.num_traced if traced else self.num_blocks
        free = [block for block in range(limit) if self._references[block] == 0]
        if len(free) < count:
            raise OutOfBlocks(f"{count} blocks asked for, {len(free)} are free.")
        empty = [block for block in free if block not in self._cut_of]
        candidates = set(free)
        spare = [block for cut in self._cuts.values() for block in cut.blocks if block in candidates]
        chosen = _neighbours(empty + spare[: max(count - len(empty), 0)], count, from_end=not traced)
        for block in chosen:
            self._forget(block)
            self._references[block] = 1
            self._times_handed_out[block] += 1
        return chosen

    def share(self, blocks: Iterable[int]) -> None:
        """One more user of blocks that are in use or hold a cut."""
        for block in blocks:
            self._references[block] += 1

    def times_handed_out(self, blocks: Iterable[int]) -> list[int]:
        """Unchanged as long as nobody else can have written into the blocks."""
        return [self._times_handed_out[block] for block in blocks]

    def release(self, blocks: Iterable[int]) -> None:
        """One user less. A cut in the blocks stays findable until they are handed out again."""
        for block in blocks:
            if self._references[block] == 0:
                raise ValueError(f"Block {block} is not in use.")
            self._references[block] -= 1

    def find_prefix(self, digests: Sequence[Digest], *, traced: bool = False) -> Prefix:
        """The longest run of known cuts, from the first on; `traced` accepts recorded cuts only."""
        prefix = Prefix()
        for digest in digests:
            cut = self._cuts.get(digest)
            if cut is None or (traced and not cut.traced):
                break
            self._cuts.move_to_end(digest)
            prefix.blocks += cut.blocks
            if cut.decoded is not None:
                prefix.decoded.append(cut.decoded)
        return prefix

    def remember(
        self, digest: Digest, blocks: Sequence[int], *, traced: bool = False, decoded: Span | None = None
    ) -> None:
        """The cut of this digest lies in these blocks, which are in use. The first to say so is kept, unless the new
        one is recorded and it is not."""
        known = self._cuts.get(digest)
        if any(block in self._cut_of for block in blocks) or (known is not None and (known.traced or not traced)):
            return
        if known is not None:
            self._forget(known.blocks[0])
        cut = self._cuts[digest] = Cut(digest, tuple(blocks), traced, decoded)
        self._cut_of.update(dict.fromkeys(blocks, cut))

    def forget(self, blocks: Iterable[int]) -> None:
        """Nothing in these blocks may be found again."""
        for block in blocks:
            self._forget(block)

    def _forget(self, block: int) -> None:
        cut = self._cut_of.pop(block, None)
        if cut is not None:
            self._cuts.pop(cut.digest, None)
            for other in cut.blocks:
                self._cut_of.pop(other, None)

    def digests(self, token_ids: Sequence[int], owner: str, num_shared: int) -> list[Digest]:
        """One digest per whole cut of a prompt that may be reused: never the one that holds its last token.

        The first `num_shared` tokens are the operator's own and the same for every owner.
        """
        found: list[Digest] = []
        self.extend_digests(found, token_ids[:-1], owner, num_shared)
        return found

    def extend_digests(self, known: list[Digest], token_ids: Sequence[int], owner: str, num_shared: int) -> None:
        """Adds the digests of the whole cuts that the tokens have beyond the known ones."""
        digest = known[-1] if known else b""
        for start in range(self._cut * len(known), len(token_ids) - self._cut + 1, self._cut):
            end = start + self._cut
            scope = b"" if end <= num_shared else owner.encode()
            content = array("I", token_ids[start:end]).tobytes()
            digest = hashlib.blake2b(b"\0".join((digest, scope, content)), digest_size=16).digest()
            known.append(digest)


def _neighbours(blocks: Sequence[int], count: int, *, from_end: bool) -> list[int]:
    """`count` of these blocks: out of the smallest run of neighbours that suffices, else of the longest runs."""
    runs = sorted(_runs(sorted(blocks)), key=len)
    sufficient = next((run for run in runs if len(run) >= count), None)
    if sufficient is not None:
        return sufficient[len(sufficient) - count :] if from_end else sufficient[:count]
    joined = [block for run in reversed(runs) for block in run]
    return joined[:count]


def _runs(blocks: Sequence[int]) -> Iterator[list[int]]:
    """Runs of consecutive ids in a rising sequence."""
    for _, run in groupby(enumerate(blocks), key=lambda pair: pair[1] - pair[0]):
        yield [block for _, block in run]
