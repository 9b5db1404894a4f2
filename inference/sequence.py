"""A response inside the engine."""

from __future__ import annotations

from dataclasses import dataclass, field

from inference.answer import Answer
from inference.blocks import Span
from inference.messages import Event, EventName, Generate
from inference.model.decoder import CUT, Chunk


@dataclass(eq=False)
class Sequence:
    """Times are seconds on the monotonic clock."""

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
    num_computed: int = 0  # positions whose keys and values are in the blocks, or aside
    number: int = 0  # in the order of admission
    last_turn: int = 0
    started: float = 0.0
    prefilled: float = 0.0
    breakpoints: frozenset[int] = frozenset()  # steps after which it is held
    held_since: float | None = None
    held_s: float = 0.0  # of earlier holds
    forward_s: float = 0.0  # of the decoding passes it took part in
    bytes_read: int = 0  # by them
    events: list[Event] = field(default_factory=list)
    ended: bool = False

    @property
    def response_id(self) -> str:
        return self.request.response_id

    @property
    def num_prompt_tokens(self) -> int:
        return len(self.request.token_ids)

    @property
    def most_positions(self) -> int:
        """Positions it has at its longest."""
        return self.num_prompt_tokens + self.max_tokens

    @property
    def least_positions(self) -> int:
        """Positions it must have room for to go on: its prompt and one token more than it has."""
        return min(max(self.num_prompt_tokens, self.num_computed) + 1, self.most_positions)

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

    def note(self, name: EventName, now: float) -> None:
        """Something has happened to it."""
        self.events.append(Event(name, 1e3 * (now - self.submitted)))

    def hold(self, now: float) -> None:
        """Takes no step from now on."""
        self.held_since = now
        self.note("held", now)

    def go_on(self, now: float) -> None:
        """The end of a hold, if there is one."""
        if self.held_since is not None:
            self.held_s += now - self.held_since
            self.held_since = None
            self.note("continued", now)

    def next_chunk(self) -> Chunk:
        """The next cut of the prompt (cuts end at multiples of CUT whatever the load), or the newest token."""
        start = self.num_computed
        end = min((start // CUT + 1) * CUT, self.num_prompt_tokens) if self.is_reading else start + 1
        wants_logits = end >= self.num_prompt_tokens
        return Chunk(self.token_ids[start:end], start, self.blocks, wants_logits, self.record)
