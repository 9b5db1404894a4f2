"""Blocks and the order of work: who owns what, what is found again, who runs next."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from inference.answer import Answer
from inference.blocks import BlockAllocator, OutOfBlocks
from inference.model.decoder import CUT
from inference.scheduler import Scheduler, Turn
from inference.sequence import Sequence
from tests.inference.tiny import byte_tokenizer, request

PROMPT = list(range(250)) * 2  # three whole cuts and a rest


def allocator(num_blocks: int = 16, num_traced: int | None = None) -> BlockAllocator:
    return BlockAllocator(num_blocks, 64, CUT, num_blocks if num_traced is None else num_traced)


# ---------------------------------------------------------------- blocks


def test_blocks_of_one_owner_are_neighbours_where_a_run_is_long_enough() -> None:
    blocks = allocator(12)
    first, second, third = (blocks.allocate(4) for _ in range(3))
    blocks.release(first + third)
    blocks.release(second[:1])
    got = blocks.allocate(3, traced=True)
    assert got == list(range(got[0], got[0] + 3))
    with pytest.raises(OutOfBlocks, match="7 blocks asked for, 6 are free"):
        blocks.allocate(7)


def test_only_low_blocks_have_room_for_residuals() -> None:
    blocks = allocator(8, num_traced=3)
    assert min(blocks.allocate(3)) >= 3
    assert sorted(blocks.allocate(3, traced=True)) == [0, 1, 2]
    with pytest.raises(OutOfBlocks):
        blocks.allocate(1, traced=True)


def test_a_prefix_is_found_by_its_owner_and_by_nobody_else() -> None:
    blocks = allocator()
    digests = blocks.digests(PROMPT, "owner", 0)
    assert len(digests) == 3
    own = blocks.allocate(6)
    for index, digest in enumerate(digests):
        blocks.remember(digest, own[2 * index : 2 * index + 2], traced=True)
    assert blocks.find_prefix(blocks.digests(PROMPT[:300], "owner", 0)).blocks == own[:4]
    assert blocks.find_prefix(blocks.digests([*PROMPT[:128], 0, *PROMPT[129:]], "owner", 0)).blocks == own[:2]
    assert blocks.find_prefix(blocks.digests(PROMPT, "stranger", 0)).blocks == []


def test_the_operators_prompt_is_shared() -> None:
    blocks = allocator()
    own = blocks.allocate(4)
    for index, digest in enumerate(blocks.digests(PROMPT, "owner", 130)[:2]):
        blocks.remember(digest, own[2 * index : 2 * index + 2], traced=True)
    assert blocks.find_prefix(blocks.digests(PROMPT, "stranger", 130)).blocks == own[:2]


def test_the_last_token_is_never_found() -> None:
    assert allocator().digests(PROMPT[:CUT], "o", 0) == []
    assert len(allocator().digests(PROMPT[: CUT + 1], "o", 0)) == 1


def test_digests_grow_with_the_tokens_as_if_they_had_been_there_from_the_start() -> None:
    blocks = allocator()
    grown: list[bytes] = []
    for length in (100, 128, 300, 500):
        blocks.extend_digests(grown, PROMPT[:length], "o", 130)
    assert grown == blocks.digests([*PROMPT[:500], 0], "o", 130)
    assert len(grown) == 3


def test_unused_cuts_go_least_recently_used_first() -> None:
    blocks = allocator(4)
    first, second = blocks.allocate(2), blocks.allocate(2)
    one, other = (blocks.digests([token] * 200, "o", 0)[0] for token in (1, 2))
    blocks.remember(one, first, traced=False)
    blocks.remember(other, second, traced=False)
    blocks.release(first + second)
    assert blocks.find_prefix([one]).blocks == first
    assert set(blocks.allocate(1)) <= set(second)
    assert blocks.find_prefix([other]).blocks == []
    assert blocks.find_prefix([one]).blocks == first
    assert blocks.find_prefix([one], traced=True).blocks == []


def test_a_recorded_cut_takes_the_place_of_one_that_is_not() -> None:
    blocks = allocator(6)
    digests = blocks.digests([1] * 200, "o", 0)
    plain, recorded, late = (blocks.allocate(2) for _ in range(3))
    blocks.remember(digests[0], plain, traced=False)
    blocks.remember(digests[0], recorded, traced=True)
    blocks.remember(digests[0], late, traced=False)
    assert blocks.find_prefix(digests, traced=True).blocks == recorded
    assert blocks.find_prefix(digests).blocks == recorded
    blocks.release(plain)
    assert blocks.allocate(2) == plain, "nothing is found in what was given up"
    assert blocks.find_prefix(digests).blocks == recorded


class Ownership(RuleBasedStateMachine):
    """However blocks are taken, shared and given back, nobody gets a block that another still uses."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = allocator(10, num_traced=6)
        self.held: list[list[int]] = []
        self.count = 0

    @rule(count=st.integers(1, 5), traced=st.booleans())
    def allocate(self, count: int, traced: bool) -> None:
        limit = 6 if traced else 10
        used = {block for held in self.held for block in held if block < limit}
        if limit - len(used) < count:
            with pytest.raises(OutOfBlocks):
                self.blocks.allocate(count, traced=traced)
            return
        got = self.blocks.allocate(count, traced=traced)
        assert len(set(got)) == count
        assert not used.intersection(got)
        assert all(block < limit for block in got)
        if count >= 2:
            self.count += 1
            self.blocks.remember(str(self.count).encode(), got[:2], traced=traced)
        self.held.append(got)

    @rule(number=st.integers(0, 40))
    def share(self, number: int) -> None:
        found = self.blocks.find_prefix([str(number).encode()]).blocks
        if found:
            self.blocks.share(found)
            self.held.append(found)

    @rule(place=st.integers(0, 9))
    def release(self, place: int) -> None:
        if place < len(self.held):
            self.blocks.release(self.held.pop(place))

    @invariant()
    def count_free(self) -> None:
        assert self.blocks.num_free == 10 - len({block for held in self.held for block in held})


TestOwnership = Ownership.TestCase


# ---------------------------------------------------------------- order


class Shelf:
    """Keeps nothing but counts."""

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = self.num_free = num_blocks
        self.kept: dict[str, int] = {}

    def take(self, name: str, blocks: list[int]) -> None:
        self.kept[name] = len(blocks)
        self.num_free -= len(blocks)
        assert self.num_free >= 0

    def give_back(self, name: str, blocks: list[int]) -> None:
        assert len(blocks) >= self.kept[name]
        self.drop(name)

    def drop(self, name: str) -> None:
        self.num_free += self.kept.pop(name)


def scheduler(num_blocks: int, num_traced: int | None = None, *, aside: int = 0, max_running: int = 8) -> Scheduler:
    return Scheduler(allocator(num_blocks, num_traced), Shelf(aside), max_running)


def sequence(name: str, num_prompt: int, max_tokens: int = 8, *, record: bool = True) -> Sequence:
    prompt = [7] * num_prompt
    answer = Answer(byte_tokenizer(), [], [])
    return Sequence(request(name, prompt), answer, max_tokens, 0.0, record, token_ids=list(prompt))


def names(sequences: list[Sequence]) -> list[str]:
    return [one.response_id for one in sequences]


def submit(to: Scheduler, *sequences: tuple[str, int, int]) -> list[Sequence]:
    made = [sequence(*fields) for fields in sequences]
    for one in made:
        to.submit(one)
    return made


def take_step(on: Scheduler) -> Turn:
    """One turn whose work is done at once."""
    turn = on.next_turn()
    for one in turn.decoding:
        one.token_ids.append(7)
        on.computed(one, 1)
    if (reading := on.next_reading()) is not None:
        on.computed(reading, len(reading.next_chunk().token_ids))
    return turn


def test_without_blocks_aside_a_sequence_is_admitted_when_all_fit_at_their_full_length() -> None:
    on = scheduler(4)
    first, *_ = submit(on, ("a", 100, 60), ("b", 60, 100), ("c", 1, 1))
    assert names(on.next_turn().started) == ["a"]  # three blocks; b waits for three, and c behind it
    on.finish(first, keep=True)
    assert names(on.next_turn().started) == ["b", "c"]
    assert on.num_available == 2, "b does not need two of its blocks yet"


def test_prompts_take_turns_one_cut_a_step() -> None:
    on = scheduler(32)
    submit(on, ("long", 4 * CUT, 8), ("short", CUT + 1, 8))
    on.next_turn()
    order = []
    while (reading := on.next_reading()) is not None:
        order.append(reading.response_id)
        chunk = reading.next_chunk()
        assert chunk.start % CUT == 0
        on.computed(reading, len(chunk.token_ids))
    assert order == ["long", "short", "long", "short", "long", "long"]
    assert names(on.next_turn().decoding) == ["long", "short"]


def test_finished_sequences_make_room_least_recently_looked_at_first() -> None:
    on = scheduler(6)
    for name in ("a", "b", "c"):
        (one,) = submit(on, (name, 100, 8))
        take_step(on)
        on.finish(one, keep=True)
    assert on.find("a") is not None
    submit(on, ("d", 100, 8))
    assert names(on.next_turn().started) == ["d"]
    assert [on.find(name) is not None for name in "abc"] == [True, False, True]


def test_without_room_for_residuals_a_response_runs_unrecorded() -> None:
    on = scheduler(6, num_traced=2)
    submit(on, ("a", 100, 8), ("b", 100, 8))
    assert [one.record for one in on.next_turn().started] == [True, False]


@given(st.integers(1, 600), st.integers(1, 300))
def test_where_there_is_room_blocks_cover_exactly_what_may_come(num_prompt: int, max_tokens: int) -> None:
    on = scheduler(20)
    submit(on, ("a", num_prompt, max_tokens))
    (admitted,) = on.next_turn().started
    assert (len(admitted.blocks) - 1) * 64 < num_prompt + max_tokens <= len(admitted.blocks) * 64


# ---------------------------------------------------------------- aside


def test_the_youngest_makes_room_and_comes_back_before_anybody_new() -> None:
    on = scheduler(4, aside=4)
    old, young, _ = submit(on, ("old", 64, 128), ("young", 64, 64), ("new", 64, 1))
    turn = take_step(on)
    assert names(turn.started) == ["old", "young"]
    assert [len(one.blocks) for one in (old, young)] == [2, 2], "what nobody needs yet is spare"
    while not turn.moved:
        turn = take_step(on)
    assert (names(turn.moved), names(on.aside), young.blocks) == (["young"], ["young"], [])
    assert (len(old.token_ids), on.find("young")) == (128 + 1, young)
    while not turn.returned:
        assert names(turn.started) == []
        turn = take_step(on)
        if old in on.running and len(old.token_ids) == 64 + 128:
            on.finish(old, keep=True)
    assert (names(turn.returned), names(turn.started)) == (["young"], ["new"])
    assert len(young.token_ids) == young.num_computed
    assert not young.record, "its residual streams are not kept"


def test_a_held_sequence_is_the_first_to_make_room_for_whoever_waits() -> None:
    on = scheduler(4, aside=4)
    old, waiting = submit(on, ("old", 100, 100), ("waiting", 200, 40))
    take_step(on)
    take_step(on)
    assert names(on.running) == ["old"]
    old.hold(1.0)
    assert on.has_work
    turn = take_step(on)
    assert (names(turn.moved), names(turn.started)) == (["old"], ["waiting"])
    old.go_on(2.0)
    while not (turn := take_step(on)).returned:
        assert on.has_work
        if waiting in on.running and len(waiting.token_ids) == 240:
            on.finish(waiting, keep=True)
    assert names(turn.returned) == ["old"]


def test_a_sequence_that_ends_aside_leaves_nothing_there() -> None:
    on = scheduler(4, aside=4)
    old, young = submit(on, ("old", 64, 128), ("young", 64, 64))
    while not on.aside:
        take_step(on)
    on.finish(young, keep=True)
    assert on.find("young") is None
    on.finish(old, keep=False)
    assert on.num_available == 4
    assert not on.has_work


def test_no_more_is_promised_than_can_be_kept() -> None:
    on = scheduler(6, aside=3)
    submit(on, ("a", 10, 300), ("b", 10, 180), ("c", 10, 10))  # 5, 3 and 1 blocks at their longest
    assert names(on.next_turn().started) == ["a"], "b and then c could not go aside together with it"


class Crowd(RuleBasedStateMachine):
    """Whatever comes, is held, goes on and is cancelled: whoever steps has blocks for it, and all come to an end."""

    def __init__(self) -> None:
        super().__init__()
        self.on = scheduler(7, num_traced=3, aside=5, max_running=3)
        self.everyone: list[Sequence] = []

    @rule(num_prompt=st.sampled_from([1, 63, 64, 120, 128, 200]), max_tokens=st.sampled_from([1, 20, 130, 200]))
    def submit(self, num_prompt: int, max_tokens: int) -> None:
        self.everyone += submit(self.on, (str(len(self.everyone)), num_prompt, max_tokens))

    @rule(num_steps=st.sampled_from([1, 5, 40]))
    def run(self, num_steps: int) -> None:
        for _ in range(num_steps):
            self.step()

    @rule(place=st.integers(0, 9), at=st.sampled_from(["hold", "go on", "cancel"]))
    def turn_to(self, place: int, at: str) -> None:
        going = [one for one in self.everyone if not one.ended]
        if place >= len(going):
            return
        one = going[place]
        if at == "cancel":
            self.end(one)
        elif at == "go on":
            one.go_on(1.0)
        elif one in self.on.running and not one.is_reading:
            one.hold(0.0)

    def step(self) -> None:
        turn = self.on.next_turn()
        for one in turn.decoding:
            assert len(one.blocks) * 64 > one.num_computed, "there is room for the next token"
            assert len(set(one.blocks)) == len(one.blocks)
            one.token_ids.append(7)
            self.on.computed(one, 1)
        if (reading := self.on.next_reading()) is not None:
            chunk = reading.next_chunk()
            assert len(reading.blocks) * 64 >= chunk.end
            self.on.computed(reading, len(chunk.token_ids))
        for one in [*turn.decoding, *([reading] if reading is not None else [])]:
            if not one.is_reading and one.num_computed + 1 >= one.most_positions:
                self.end(one)

    def end(self, one: Sequence) -> None:
        one.ended = True
        self.on.finish(one, keep=True)

    @invariant()
    def nobody_writes_where_another_reads(self) -> None:
        own = [block for one in self.on.running for block in one.blocks[one.num_computed // 64 :]]
        assert len(set(own)) == len(own)
        assert all(not one.blocks for one in (*self.on.aside, *self.on.waiting))
        assert sum(not one.is_held for one in self.on.running) <= 3

    def teardown(self) -> None:
        for one in self.everyone:
            one.go_on(1.0)
        for _ in range(500 * (1 + len(self.everyone))):
            if not self.on.has_work:
                break
            self.step()
        assert all(one.ended for one in self.everyone), "nobody waits for ever"
        assert self.on.num_available == 7


TestCrowd = Crowd.TestCase
TestCrowd.settings = settings(max_examples=30, stateful_step_count=20, deadline=None)
