"""Which sequence gets which blocks, and from whom they are taken when there are too few.

Whoever is admitted gets blocks for all it may need where there are enough of them, neighbours where possible. What
somebody has and does not need yet is spare and goes to who needs it. The last resort is to move a sequence aside: its
keys and values are copied out of the cache and later back. Its residual streams are let go: a view computes them again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Protocol

from inference.blocks import BlockAllocator
from inference.sequence import Sequence


class Shelf(Protocol):
    """Where sequences are moved aside to: `inference.aside.Aside`."""

    num_blocks: int
    num_free: int

    def take(self, name: str, blocks: list[int]) -> None: ...
    def give_back(self, name: str, blocks: list[int]) -> None: ...
    def drop(self, name: str) -> None: ...


class Room:
    """The blocks of sequences that run (`users`), are aside, or have finished and are kept for views, least recently
    looked-at first out."""

    def __init__(self, allocator: BlockAllocator, shelf: Shelf) -> None:
        self.allocator = allocator
        self._shelf = shelf
        self._finished: OrderedDict[str, Sequence] = OrderedDict()
        self._moved: list[Sequence] = []
        self.users: list[Sequence] = []

    @property
    def num_available(self) -> int:
        """Blocks that somebody new could get without anybody being moved aside."""
        return self._num_obtainable(self.allocator.num_blocks, [], [])

    def may_promise(self, sequence: Sequence, others: Iterable[Sequence]) -> bool:
        """Whether each of them can grow to its full length: all fit at once, or any one has the cache for itself
        while all others are aside."""
        needs = [self.allocator.num_needed(one.most_positions) for one in (sequence, *others)]
        return sum(needs) <= self.allocator.num_blocks or sum(needs) - min(needs) <= self._shelf.num_blocks

    def may_enter(self, sequence: Sequence, movable: list[Sequence]) -> bool:
        """Whether `enter` would succeed."""
        prefix = self.allocator.find_prefix(sequence.digests).blocks
        count = self.allocator.num_needed(sequence.least_positions) - len(prefix)
        return self._num_obtainable(self.allocator.num_blocks, prefix, movable) >= count

    def enter(self, sequence: Sequence, movable: list[Sequence]) -> bool:
        """Gives a new sequence the computed prefix of its prompt and blocks for the rest, if there is room."""
        if sequence.record and self._enter_where(sequence, [], traced=True):
            return True
        entered = self._enter_where(sequence, movable, traced=False)
        if entered:
            sequence.record = False
        return entered

    def can_step(self, sequence: Sequence) -> bool:
        """Whether it has blocks for its next step."""
        return self._num_used(sequence) <= len(sequence.blocks)

    def grow(self, sequence: Sequence, movable: list[Sequence]) -> bool:
        """Gives the sequence the blocks that its next step needs, if it does not have to wait for room."""
        count = self._num_used(sequence) - len(sequence.blocks)
        if sequence.record and self._obtain(sequence, count, [], traced=True):
            return True
        grown = self._obtain(sequence, count, movable, traced=False)
        if grown:
            sequence.record = False
        return grown

    def come_back(self, sequence: Sequence, movable: list[Sequence], *, to_spare: int) -> bool:
        """Brings a sequence back from aside, if `to_spare` blocks remain then."""
        count = self._num_used(sequence)
        if self._num_obtainable(self.allocator.num_blocks, [], movable) < count + to_spare:
            return False
        if not self._obtain(sequence, count, movable, traced=False):
            return False
        self._shelf.give_back(sequence.response_id, sequence.blocks)
        self.users.append(sequence)
        return True

    def take_moved(self) -> list[Sequence]:
        """Who was moved aside since this was last asked."""
        moved, self._moved = self._moved, []
        return moved

    def leave(self, sequence: Sequence, *, keep: bool) -> None:
        """A sequence has ended. `keep` holds its blocks for views; else they are free at once and, as something may be
        wrong with what they hold, never found again."""
        if sequence not in self.users:
            self._shelf.drop(sequence.response_id)
            return
        self.users.remove(sequence)
        used = self.allocator.num_needed(sequence.num_computed)
        self._give_up(sequence, used)
        if keep:
            self._finished[sequence.response_id] = sequence
        else:
            self.allocator.forget(sequence.blocks)
            self._give_up(sequence, 0)

    def finished(self, response_id: str) -> Sequence | None:
        """A finished sequence that is still kept. Somebody looks at it."""
        if response_id in self._finished:
            self._finished.move_to_end(response_id)
        return self._finished.get(response_id)

    def drop_finished(self, response_id: str) -> None:
        if (sequence := self._finished.pop(response_id, None)) is not None:
            self._give_up(sequence, 0)

    # ------------------------------------------------------------ from whom

    def _enter_where(self, sequence: Sequence, movable: list[Sequence], *, traced: bool) -> bool:
        allocator = self.allocator
        prefix = allocator.find_prefix(sequence.digests, traced=traced)
        least = allocator.num_needed(sequence.least_positions) - len(prefix.blocks)
        allocator.share(prefix.blocks)
        sequence.blocks = list(prefix.blocks)
        if not self._obtain(sequence, least, movable, traced=traced):
            self._give_up(sequence, 0)
            return False
        sequence.num_prefix_tokens = sequence.num_computed = len(prefix.blocks) * allocator.block_size
        sequence.decoded_prefix = prefix.decoded
        self.users.append(sequence)
        return True

    def _obtain(self, sequence: Sequence, least: int, movable: list[Sequence], *, traced: bool) -> bool:
        """Adds `least` blocks to the sequence's, and all it may ever need where no user misses them. Nobody loses
        anything if that would not suffice."""
        allocator = self.allocator
        limit = allocator.num_traced if traced else allocator.num_blocks
        if self._num_obtainable(limit, sequence.blocks, movable) < least:
            return False
        most = max(least, allocator.num_needed(sequence.most_positions) - len(sequence.blocks))
        while allocator.num_free_below(limit) < most and self._finished:
            self.drop_finished(next(iter(self._finished)))
        for user in reversed(self.users):
            if allocator.num_free_below(limit) >= least:
                break
            self._give_up(user, self._num_used(user))
        for user in movable:
            if allocator.num_free_below(limit) >= least:
                break
            self._move_aside(user)
        sequence.blocks += allocator.allocate(min(most, allocator.num_free_below(limit)), traced=traced)
        return True

    def _move_aside(self, sequence: Sequence) -> None:
        """If the shelf has room for it."""
        used = self.allocator.num_needed(sequence.num_computed)
        if used > self._shelf.num_free:
            return
        self._shelf.take(sequence.response_id, sequence.blocks[:used])
        self._give_up(sequence, 0)
        self.users.remove(sequence)
        sequence.record = False
        self._moved.append(sequence)

    def _num_obtainable(self, limit: int, spared: list[int], movable: list[Sequence]) -> int:
        """Blocks below `limit` that can be had: all but the spared ones and those that the others need."""
        room, staying = self._shelf.num_free, list(self.users)
        for user in movable:
            used = self.allocator.num_needed(user.num_computed)
            if used <= room:
                room -= used
                staying.remove(user)
        taken = {block for block in spared if block < limit}
        for user in staying:
            taken.update(block for block in user.blocks[: self._num_used(user)] if block < limit)
        return limit - len(taken)

    def _num_used(self, sequence: Sequence) -> int:
        """Blocks of the sequence that are not spare."""
        return self.allocator.num_needed(sequence.least_positions)

    def _give_up(self, sequence: Sequence, num_kept: int) -> None:
        """Gives back all but the first blocks."""
        self.allocator.release(sequence.blocks[num_kept:])
        sequence.blocks = sequence.blocks[:num_kept]
