"""What the stages around the model report about one request: the `data` of their `trace.stage` events.

Only summaries are pushed. Whatever grows with the context (token lists beyond the first, attention maps, vectors)
is pulled as a view. Field names are the page's contract; units stand in the names.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Decision = Literal["allow", "constrain", "redirect", "refuse", "review"]
Source = Literal["template", "system", "developer", "tool", "history", "retrieved", "user", "constraint", "marker"]


class Header(msgspec.Struct, frozen=True):
    name: str
    value: str


class RequestReport(msgspec.Struct, frozen=True):
    """Stage 1. `frame` is the text as it arrived, cut at 16 kB (`truncated`); secrets in headers never appear."""

    transport: Literal["websocket", "http"]
    frame: str
    truncated: bool
    num_bytes: int
    headers: list[Header]
    arrived_at: str  # ISO 8601, UTC, the web process's wall clock
    encrypted: bool


class Check(msgspec.Struct, frozen=True):
    """One check of the gateway. `passed` is null where it was not reached."""

    name: Literal[
        "structure", "size", "authentication", "conversation access", "limit", "region", "model", "conversation data"
    ]  # fmt: skip
    passed: bool | None
    detail: str
    duration_ms: float
    limit: int | None = None
    remaining: int | None = None
    resets_in_s: float | None = None


class GatewayReport(msgspec.Struct, frozen=True):
    request_id: str
    principal: Literal["user", "guest", "api key"]
    checks: list[Check]
    refused: str | None = None  # code of the error, when it was


class RetrievalReport(msgspec.Struct, frozen=True):
    enabled: bool
    reason: str
    best_score: float | None = None
    candidates: list[dict[str, Any]] = []


class Segment(msgspec.Struct, frozen=True):
    """A stretch of the assembled prompt, in order. `text` is cut at 4,000 characters (`truncated`)."""

    source: Source
    role: str
    text: str
    num_tokens: int
    truncated: bool = False
    message_id: str | None = None


class Dropped(msgspec.Struct, frozen=True):
    message_id: str | None
    role: str
    num_tokens: int
    reason: str


class PromptReport(msgspec.Struct, frozen=True):
    segments: list[Segment]
    num_tokens: int
    context_length: int
    room_for_answer: int
    dropped: list[Dropped]


class Score(msgspec.Struct, frozen=True):
    label: str
    score: float
    threshold: float | None


class RuleHit(msgspec.Struct, frozen=True):
    rule: str
    version: str
    effect: str
    detail: str


class InputSafetyReport(msgspec.Struct, frozen=True):
    """Stage 4. `technique` names how the scores came about; `amendment` is the text added to the prompt, if any."""

    technique: str
    version: str
    scores: list[Score]
    rules: list[RuleHit]
    decision: Decision
    reason: str
    amendment: str | None = None


class WorkerChoice(msgspec.Struct, frozen=True):
    worker_id: str
    name: str
    model: str
    kernel: str
    device: str
    region: str
    num_free_blocks: int
    num_running: int
    num_waiting: int
    last_seen_s: float
    chosen: bool
    reason: str


class RoutingReport(msgspec.Struct, frozen=True):
    """Stage 5. `queue_ms` from the database's clock: from the job's creation to its taking."""

    requested_model: str
    model: str
    fingerprint: str
    workers: list[WorkerChoice]
    reason: str
    queue_ms: float


class OutputWindow(msgspec.Struct, frozen=True):
    start: int  # characters [start, end) of the answer
    end: int
    scores: list[Score]
    rules: list[RuleHit]
    decision: Decision
    reason: str


class OutputSafetyReport(msgspec.Struct, frozen=True):
    technique: str
    version: str
    windows: list[OutputWindow]
    num_characters_released: int
    num_characters_withheld: int
    decision: Decision


class StreamReport(msgspec.Struct, frozen=True):
    """Stage 26, measured by the worker: time to first token from the taking of the job to the first released text.
    What the browser itself measured stands beside it on the page."""

    num_chunks: int
    num_bytes: int
    time_to_first_token_ms: float | None
    inter_token_ms_median: float | None
    inter_token_ms_p95: float | None
    tokens_per_second: float | None
    end_to_end_ms: float


class StoredRow(msgspec.Struct, frozen=True):
    table: str
    what: str
    num_bytes: int | None = None


class StorageReport(msgspec.Struct, frozen=True):
    rows: list[StoredRow]
    redacted: list[str]
    admin_path: str
