"""Who runs in the next step: continuous batching with prompts read in cuts.

Each step decodes one token of every sequence that has read its prompt, and reads at most one cut of one prompt, so
a long prompt never starves a running answer. Prompts take turns, so a long one does not hold up a short one either.

A held sequence keeps its blocks and takes no step, so it counts for nobody's place in the batch.

Sequences are admitted first come, first served. Admission reserves blocks for the prompt and all tokens the answer
may have, so that nothing ever has to be preempted and no sequence's numbers can depend on who else is there.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from inference.answer import Answer
from inference.blocks import BlockAllocator, Span
from inference.messages import Generate
from inference.model.decoder import CUT, Chunk


@dataclass(eq=False)
class Sequence:
    """A response inside the engine. Times are seconds on the monotonic clock."""

    request: Generate
    answer: Answer
    max_tokens: int
    submitted: float
    record: bool
    digests: list[bytes] = field(default_factory=list)  # of its whole cuts, as far as they are known
    token_ids: list[int] = field(default_factory=list)  # prompt and answer
    blocks: list[int] = field(default_factory=list)
    num_prefix_tokens: int = 0  # prompt positions found computed
    decoded_prefix: list[Span] = field(default_factory=list)  # those of them that were computed token by token
    num_computed: int = 0  # positions whose keys and values are in the blocks
    num_cuts: int = 0
    last_turn: int = 0
    started: float = 0.0
    prefilled: float = 0.0
    breakpoints: frozenset[int] = frozenset()  # steps after which it is held
    held_since: float | None = None
    held_s: float = 0.0  # of earlier holds
    ended: bool = False

    @property
    def response_id(self) -> str:
        return self.request.response_id

    @property
    def num_prompt_tokens(self) -> int:
        return len(self.request.token_ids)

    @property
    def is_reading(self) -> bool:
        """Whether part of the prompt is still to be computed."""
        return self.num_computed < self.num_prompt_tokens

    @property
    def is_held(self) -> bool:
        return self.held_since is not None

    def given(self, step: int) -> int | None:
        """The token that the request wants at this step; null where one is drawn."""
        return self.request.given[step] if step < len(self.request.given) else None

    def hold(self, now: float) -> None:
        """Takes no step from now on."""
        self.held_since = now

    def go_on(self, now: float) -> None:
        """The end of a hold, if there is one."""
        if self.held_since is not None:
            self.held_s += now - self.held_since
            self.held_since = None

    def next_chunk(self) -> Chunk:
        """The next cut of the prompt (cuts end at multiples of CUT whatever the load), or the newest token."""
        start = self.num_computed
        end = min((start // CUT + 1) * CUT, self.num_prompt_tokens) if self.is_reading else start + 1
        wants_logits = end >= self.num_prompt_tokens
        return Chunk(self.token_ids[start:end], start, self.blocks, wants_logits, self.record)


class Scheduler:
    """Waiting, running and finished sequences, and the blocks they own.

    Finished sequences keep their blocks for views, least recently looked-at first out, until they are needed.
    """

    def __init__(self, allocator: BlockAllocator, max_running: int) -> None:
        self.allocator = allocator
        self._max_running = max_running
        self._turn = 0
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self._finished: OrderedDict[str, Sequence] = OrderedDict()

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything: somebody runs, or could begin to."""
        return any(not sequence.is_held for sequence in self.running) or self._may_admit()

    def submit(self, sequence: Sequence) -> None:
        self._drop_finished(sequence.response_id)
        self.waiting.append(sequence)

    @property
    def num_available(self) -> int:
        """Blocks a new sequence could get: free ones and those of finished sequences."""
        return self.allocator.num_blocks - len(self._owned(self.allocator.num_blocks))

    def find(self, response_id: str) -> Sequence | None:
        """The sequence of this response, waiting, running or finished and still held."""
        if response_id in self._finished:
            self._finished.move_to_end(response_id)
            return self._finished[response_id]
        return next((s for s in (*self.running, *self.waiting) if s.response_id == response_id), None)

    def admit(self) -> Iterator[Sequence]:
        """Moves sequences from the queue to the batch while there is room."""
        while self._may_admit() and self._reserve(self.waiting[0]):
            sequence = self.waiting.popleft()
            self.running.append(sequence)
            yield sequence

    def decoding(self) -> list[Sequence]:
        """Sequences that get one more token in this step."""
        return [sequence for sequence in self.running if not (sequence.is_reading or sequence.is_held)]

    def next_reading(self) -> Sequence | None:
        """The sequence whose prompt is read on in this step: the one whose last turn is longest ago."""
        reading = [sequence for sequence in self.running if sequence.is_reading]
        if not reading:
            return None
        self._turn += 1
        chosen = min(reading, key=lambda sequence: sequence.last_turn)
        chosen.last_turn = self._turn
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
        """Takes a sequence out of queue or batch. `keep` holds its blocks for views; else they are free at once
        and, as something may be wrong with what they hold, never found again."""
        if sequence in self.running:
            self.running.remove(sequence)
        else:
            self.waiting.remove(sequence)
        if keep and sequence.blocks:
            self._free_unused(sequence)
            self._finished[sequence.response_id] = sequence
        elif sequence.blocks:
            self.allocator.forget(sequence.blocks)
            self.allocator.release(sequence.blocks)
            sequence.blocks = []

    def _free_unused(self, sequence: Sequence) -> None:
        """Gives back the blocks reserved for tokens that never came."""
        used = self.allocator.num_needed(sequence.num_computed)
        self.allocator.release(sequence.blocks[used:])
        sequence.blocks = sequence.blocks[:used]

    def _drop_finished(self, response_id: str) -> None:
        sequence = self._finished.pop(response_id, None)
        if sequence is not None:
            self.allocator.release(sequence.blocks)
            sequence.blocks = []

    def _reserve(self, sequence: Sequence) -> bool:
        """Gives the sequence all blocks it may need, with room for residuals if it records and they can be had."""
        if self._reserve_where(sequence, traced=sequence.record):
            return True
        if sequence.record and self._reserve_where(sequence, traced=False):
            sequence.record = False
            return True
        return False

    def _reserve_where(self, sequence: Sequence, *, traced: bool) -> bool:
        allocator = self.allocator
        prefix = allocator.find_prefix(sequence.digests, traced=traced)
        allocator.share(prefix.blocks)
        count = allocator.num_needed(sequence.num_prompt_tokens + sequence.max_tokens) - len(prefix.blocks)
        if not self._make_room(count, spared=prefix.blocks, traced=traced):
            allocator.release(prefix.blocks)
            return False
        sequence.blocks = prefix.blocks + allocator.allocate(count, traced=traced)
        sequence.num_prefix_tokens = sequence.num_computed = len(prefix.blocks) * allocator.block_size
        sequence.decoded_prefix = prefix.decoded
        return True

    def _may_admit(self) -> bool:
        """Whether there is a place in the batch and there are blocks for whoever waits longest."""
        if not self.waiting or sum(not sequence.is_held for sequence in self.running) >= self._max_running:
            return False
        first, limit = self.waiting[0], self.allocator.num_blocks
        prefix = self.allocator.find_prefix(first.digests).blocks
        num_new = self.allocator.num_needed(first.num_prompt_tokens + first.max_tokens) - len(prefix)
        return limit - len(self._owned(limit).union(prefix)) >= num_new

    def _make_room(self, count: int, *, spared: list[int], traced: bool) -> bool:
        """Lets go of finished sequences, as many as needed and none if that would not suffice."""
        limit = self.allocator.num_traced if traced else self.allocator.num_blocks
        if limit - len(self._owned(limit).union(block for block in spared if block < limit)) < count:
            return False
        while self.allocator.num_free_below(limit) < count and self._finished:
            self._drop_finished(next(iter(self._finished)))
        return self.allocator.num_free_below(limit) >= count

    def _owned(self, limit: int) -> set[int]:
        """Blocks below `limit` that running sequences own."""
        return {block for sequence in self.running for block in sequence.blocks if block < limit}
