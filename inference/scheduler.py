"""Who runs in the next step: continuous batching with prompts read in cuts.

Each step decodes one token of every sequence that has read its prompt, and reads on in one prompt beside it, so a
long prompt never starves a running answer. Prompts take turns, so a long one does not hold up a short one either.

Sequences are admitted first come, first served, when there is room for the prompt and a little. When the cache
becomes too small for all that run, the youngest is moved aside and comes back before anybody new is admitted. A held
sequence takes no step, counts for nobody's place in the batch, and is the first to be moved aside.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from inference.blocks import BlockAllocator
from inference.model.decoder import CUT
from inference.room import Room, Shelf
from inference.sequence import Sequence


@dataclass(frozen=True)
class Turn:
    """One step's work, and what became of sequences for it."""

    started: list[Sequence]
    moved: list[Sequence]
    """Moved aside."""
    returned: list[Sequence]
    """Came back from aside."""
    decoding: list[Sequence]
    """Get one more token."""


class Scheduler:
    """Waiting and running sequences, and those moved aside. `running` is in the order of admission."""

    def __init__(self, allocator: BlockAllocator, shelf: Shelf, max_running: int) -> None:
        self.allocator = allocator
        self._room = Room(allocator, shelf)
        self._max_running = max_running
        self._num_turns = self._num_admitted = 0
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self.aside: list[Sequence] = []

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything: somebody runs, or could begin to."""
        return any(not one.is_held for one in (*self.running, *self.aside)) or self._may_admit()

    @property
    def num_available(self) -> int:
        """Blocks a new sequence could get: free ones, those of finished sequences, and what others do not need yet."""
        return self._room.num_available

    def submit(self, sequence: Sequence) -> None:
        self._room.drop_finished(sequence.response_id)
        self.waiting.append(sequence)

    def find(self, response_id: str) -> Sequence | None:
        """The sequence of this response, wherever it is, finished ones as long as they are kept."""
        everyone = (*self.running, *self.aside, *self.waiting)
        found = next((one for one in everyone if one.response_id == response_id), None)
        return found or self._room.finished(response_id)

    def next_turn(self) -> Turn:
        """Gives everybody who may take a step what it needs for it."""
        ready = [one for one in self.running if not one.is_held and self._can_step(one)]
        self._settle()
        ready += (returned := self._bring_back(len(ready)))
        self._settle()
        ready += (started := self._admit(len(ready)))
        self._settle()
        moved = self._room.take_moved()
        return Turn(started, moved, returned, [one for one in ready if not one.is_reading])

    def next_reading(self) -> Sequence | None:
        """The sequence whose prompt is read on in this step: the one whose last turn is longest ago."""
        reading = [one for one in self.running if one.is_reading]
        if not reading:
            return None
        self._num_turns += 1
        chosen = min(reading, key=lambda sequence: sequence.last_turn)
        chosen.last_turn = self._num_turns
        return chosen

    def computed(self, sequence: Sequence, num_tokens: int) -> None:
        """`num_tokens` more positions are in the blocks: whole cuts can be found from now on."""
        before, after = sequence.num_computed // CUT, (sequence.num_computed + num_tokens) // CUT
        sequence.num_computed += num_tokens
        if before == after:
            return
        request, num_prompt = sequence.request, sequence.num_prompt_tokens
        computed = sequence.token_ids[: after * CUT]
        self.allocator.extend_digests(sequence.digests, computed, request.owner, request.num_shared_tokens)
        per_cut = CUT // self.allocator.block_size
        for index in range(before, after):
            blocks = sequence.blocks[index * per_cut : (index + 1) * per_cut]
            start, end = max(index * CUT, num_prompt), (index + 1) * CUT
            decoded = (start, end) if start < end else None
            self.allocator.remember(sequence.digests[index], blocks, traced=sequence.record, decoded=decoded)

    def finish(self, sequence: Sequence, *, keep: bool) -> None:
        """Takes a sequence out. `keep` holds its blocks for views; else they are free at once and never found again."""
        if sequence in self.waiting:
            self.waiting.remove(sequence)
            return
        (self.running if sequence in self.running else self.aside).remove(sequence)
        self._room.leave(sequence, keep=keep)

    # ------------------------------------------------------------ the parts of a turn

    def _can_step(self, sequence: Sequence) -> bool:
        """Whether it is still in the cache and has or finds room for its next step: younger ones may lose theirs."""
        if sequence not in self._room.users:
            return False
        return self._room.can_step(sequence) or self._room.grow(sequence, self._movable(sequence.number))

    def _bring_back(self, num_ready: int) -> list[Sequence]:
        """Those that were moved aside, oldest first, as long as whoever runs can take a step more beside them."""
        returned: list[Sequence] = []
        for sequence in self.aside:
            if sequence.is_held:
                continue
            num_stepping = num_ready + len(returned)
            held = self._movable(self._num_admitted)
            if num_stepping >= self._max_running or not self._room.come_back(sequence, held, to_spare=num_stepping):
                break
            returned.append(sequence)
        return returned

    def _admit(self, num_ready: int) -> list[Sequence]:
        """From the queue, as long as there is room and nobody older waits aside for it."""
        started: list[Sequence] = []
        while self._may_admit(num_ready + len(started)):
            sequence = self.waiting[0]
            if not self._room.enter(sequence, self._movable(self._num_admitted)):
                break
            self.running.append(self.waiting.popleft())
            sequence.number = self._num_admitted
            self._num_admitted += 1
            started.append(sequence)
        return started

    def _settle(self) -> None:
        """Who runs and who is aside, as it has turned out, each in the order of admission."""
        users = set(self._room.users)
        if users == set(self.running):
            return
        everyone = sorted((*self.running, *self.aside), key=lambda sequence: sequence.number)
        self.running = [one for one in everyone if one in users]
        self.aside = [one for one in everyone if one not in users]

    def _may_admit(self, num_ready: int | None = None) -> bool:
        """Whether there is a place in the batch and room for whoever waits longest, also when all grow."""
        if num_ready is None:
            num_ready = sum(not one.is_held for one in self.running)
        if not self.waiting or num_ready >= self._max_running:
            return False
        if any(not one.is_held for one in self.aside):
            return False
        first, others = self.waiting[0], (*self.running, *self.aside)
        return self._room.may_promise(first, others) and self._room.may_enter(first, self._movable(self._num_admitted))

    def _movable(self, number: int) -> list[Sequence]:
        """Who may be moved aside for the sequence of this number: held ones, then younger ones, the youngest first."""
        found = [one for one in self._room.users if one.number != number and (one.is_held or one.number > number)]
        return sorted(found, key=lambda one: (not one.is_held, -one.number))
