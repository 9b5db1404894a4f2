"""Stage 3: from instructions, history and the newest messages to the prompt that fits the context window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from inference.text import ChatTemplate, Message, Part, Segment, Tokenizer
from webtrace.reporting import service_reports

SHOWN_CHARACTERS = 4000  # of one segment in the report
SHOWN_BYTES = 100_000  # of all segments' texts together, as JSON; the newest come first
LONGEST_IN_JSON = 6  # bytes of one character: \u0001
SHOWN_SEGMENTS = 120
SHOWN_DROPPED = 50


class PromptTooLong(ValueError):
    """Even without history the prompt leaves no room for an answer."""

    def __init__(self, num_tokens: int, context_length: int) -> None:
        super().__init__(
            f"The prompt has {num_tokens:,} tokens without any history; prompt and answer together may have "
            f"{context_length:,}."
        )
        self.num_tokens = num_tokens
        self.context_length = context_length


@dataclass(frozen=True)
class Turn:
    """One message for the prompt. `source` is where it came from, as the page names it; `token_ids` are those the
    model wrote it with, empty where a person wrote it or nobody knows."""

    role: str
    text: str
    source: service_reports.Source
    message_id: str | None = None
    token_ids: tuple[int, ...] = ()

    def as_message(self) -> Message:
        return Message.of(self.role, self.text, self.source, self.token_ids)


@dataclass(frozen=True)
class Prompt:
    segments: list[Segment]
    token_ids: list[int]
    context_length: int
    dropped: list[service_reports.Dropped]

    @property
    def room(self) -> int:
        """Tokens that an answer may still have."""
        return self.context_length - len(self.token_ids)


@dataclass(frozen=True)
class Assembler:
    """Makes prompts for one model."""

    tokenizer: Tokenizer
    template: ChatTemplate
    context_length: int

    def assemble(
        self,
        *,
        instructions: Sequence[Turn],
        history: Sequence[Turn],
        newest: Sequence[Turn],
        max_tokens: int,
        constraint: str | None = None,
    ) -> Prompt:
        """The prompt with as much history as leaves room for `max_tokens`, at most half of the context.

        The oldest turns are left out first, whole, and a history never begins with an answer. `constraint` is added
        to the instructions. Answers of the model are taken with the tokens it wrote, so that what the cache has of
        them is found again. Raises PromptTooLong, TemplateFailed.
        """
        history = [self._as_written(turn) for turn in history]
        fixed = _with_constraint(instructions, constraint)
        last = [turn.as_message() for turn in newest]
        segments = self.template.render([*fixed, *last])
        bare = _num_tokens(segments)
        if bare >= self.context_length:
            raise PromptTooLong(bare, self.context_length)
        budget = self.context_length - min(max_tokens, self.context_length // 2)
        costs = [len(turn.token_ids) or len(self.tokenizer.encode(turn.text)) for turn in history]
        first = _first_kept(history, costs, budget - bare)
        while first < len(history):
            kept = [turn.as_message() for turn in history[first:]]
            with_history = self.template.render([*fixed, *kept, *last])
            if _num_tokens(with_history) <= budget:
                segments = with_history
                break
            first = _next_start(history, first + 1)
        reason = f"the prompt may have {budget:,} tokens, so that {self.context_length - budget:,} are left to answer"
        dropped = [
            service_reports.Dropped(turn.message_id, turn.role, cost, reason)
            for turn, cost in zip(history[:first], costs[:first], strict=True)
        ]
        token_ids = [token for segment in segments for token in segment.token_ids]
        return Prompt(segments, token_ids, self.context_length, dropped)

    def _as_written(self, turn: Turn) -> Turn:
        """The turn with the tokens of its text alone: without the end token, and without any if they spell another
        text (one that was cut at a stop string, or another model's)."""
        ids = turn.token_ids
        if ids and ids[-1] in self.tokenizer.end_ids:
            ids = ids[:-1]
        return replace(turn, token_ids=ids if self.tokenizer.spells(ids, turn.text) else ())


def _with_constraint(instructions: Sequence[Turn], constraint: str | None) -> list[Message]:
    """The instructions as messages, the constraint a part of its own behind the last of them."""
    messages = [turn.as_message() for turn in instructions]
    if constraint is None:
        return messages
    if not messages:
        return [Message("system", (Part(constraint, "constraint"),))]
    last = messages[-1]
    return [*messages[:-1], replace(last, parts=(*last.parts, Part(f"\n\n{constraint}", "constraint")))]


def _first_kept(history: Sequence[Turn], costs: Sequence[int], room: int) -> int:
    """Index of the oldest turn to try: contents alone must fit, the markers around them are counted by rendering."""
    first = len(history)
    while first > 0 and costs[first - 1] <= room:
        first -= 1
        room -= costs[first]
    return _next_start(history, first) if first else 0


def _next_start(history: Sequence[Turn], index: int) -> int:
    """The first turn from `index` on that is not an answer."""
    while index < len(history) and history[index].role == "assistant":
        index += 1
    return index


def _num_tokens(segments: Sequence[Segment]) -> int:
    return sum(len(segment.token_ids) for segment in segments)


# ---------------------------------------------------------------- what the page is told


def report(prompt: Prompt) -> service_reports.PromptReport:
    """Stage 3's data. Past the bounds the oldest rows are joined into one that says how many it stands for."""
    rows = [
        service_reports.Segment(
            source=source_of(segment),
            role=segment.role,
            text=segment.text[:SHOWN_CHARACTERS],
            num_tokens=len(segment.token_ids),
            truncated=len(segment.text) > SHOWN_CHARACTERS,
        )
        for segment in prompt.segments
    ]
    return service_reports.PromptReport(
        segments=_cut_texts(_join_segments(rows)),
        num_tokens=len(prompt.token_ids),
        context_length=prompt.context_length,
        room_for_answer=prompt.room,
        dropped=_join_dropped(prompt.dropped),
    )


def source_of(segment: Segment) -> service_reports.Source:
    """What a segment counts as on the page."""
    return "marker" if segment.is_marker else segment.source  # type: ignore[return-value]


def sources(prompt: Prompt) -> list[service_reports.Source]:
    """The source of every token of the prompt."""
    return [source_of(segment) for segment in prompt.segments for _ in segment.token_ids]


def num_shared_tokens(prompt: Prompt) -> int:
    """Leading tokens that the template wrote itself: the same for everybody, so their cache may be shared."""
    count = 0
    for segment in prompt.segments:
        if segment.source != "template":
            break
        count += len(segment.token_ids)
    return count


def user_span(prompt: Prompt) -> tuple[int, int]:
    """Positions [from, to) of the newest user text; empty at the end if there is none."""
    place = len(prompt.token_ids)
    for segment in reversed(prompt.segments):
        start = place - len(segment.token_ids)
        if segment.source == "user" and not segment.is_marker:
            return start, place
        place = start
    return len(prompt.token_ids), len(prompt.token_ids)


def _join_segments(rows: list[service_reports.Segment]) -> list[service_reports.Segment]:
    excess = len(rows) - SHOWN_SEGMENTS
    if excess <= 0:
        return rows
    begin = next((i for i, row in enumerate(rows) if row.source == "history"), 0)
    joined = rows[begin : begin + excess + 1]
    text = f"… {len(joined)} earlier segments …"
    tokens = sum(row.num_tokens for row in joined)
    stand_in = service_reports.Segment("history", "", text, tokens, truncated=True)
    return [*rows[:begin], stand_in, *rows[begin + excess + 1 :]]


def _cut_texts(rows: list[service_reports.Segment]) -> list[service_reports.Segment]:
    room = SHOWN_BYTES
    cut: list[service_reports.Segment] = []
    for row in reversed(rows):
        if len(msgspec.json.encode(row.text)) > room:
            row = msgspec.structs.replace(row, text=row.text[: room // LONGEST_IN_JSON], truncated=True)
        room -= len(msgspec.json.encode(row.text)) - 2
        cut.append(row)
    return cut[::-1]


def _join_dropped(rows: list[service_reports.Dropped]) -> list[service_reports.Dropped]:
    excess = len(rows) - SHOWN_DROPPED
    if excess <= 0:
        return rows
    tokens = sum(row.num_tokens for row in rows[: excess + 1])
    stand_in = service_reports.Dropped(None, "", tokens, f"{excess + 1} earlier messages: {rows[0].reason}")
    return [stand_in, *rows[excess + 1 :]]
