"""What each stage reports about one request: the `data` of its `trace.stage` event.

Only summaries are pushed. Whatever grows with the context (token lists beyond the first, attention maps, vectors)
is pulled as a view. Field names are the page's contract; units stand in the names.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from inference.messages import Candidate, Event, Ledger

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


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """One token of the prompt: position, id, its text (escapes for partial characters), kind, source of its segment."""

    position: int
    id: int
    text: str
    kind: str
    source: Source


class TokensReport(msgspec.Struct, frozen=True):
    """Stage 6. `pieces` are the first 512 tokens of the prompt; later ones are known to the page by position only."""

    num_tokens: int
    num_characters: int
    num_bytes: int
    user_span: tuple[int, int]  # positions [from, to) of the newest user text
    pieces: list[Piece]
    merges: list[tuple[str, str, str]]  # (left, right, merged) in order, for the words of the user text, first 200


class TokenIdsReport(msgspec.Struct, frozen=True):
    vocabulary: int
    num_distinct: int
    smallest: int
    largest: int
    ids: list[int]  # the first 512


class ModelStageReport(msgspec.Struct, frozen=True):
    """Stages 8-18: what was computed while the prompt was read, over all layers; pictures are views."""

    layers: int
    positions: int
    multiply_adds: int
    shape: str


class LogitsReport(msgspec.Struct, frozen=True):
    """Stage 19, of step 0."""

    vocabulary: int
    top: list[tuple[int, str, float]]
    bottom: list[tuple[int, str, float]]
    minimum: float
    maximum: float
    mean: float
    std: float


class ProbabilitiesReport(msgspec.Struct, frozen=True):
    """Stage 20, of step 0: raw softmax over the whole vocabulary."""

    top: list[Candidate]
    entropy_nats: float
    others_mass: float


class SamplingReport(msgspec.Struct, frozen=True):
    """Stage 21, of step 0; every later step has its ledger in `trace.step`."""

    parameters: dict[str, Any]
    seed: int
    ledger: Ledger
    token: int
    token_text: str
    rank: int


class AppendReport(msgspec.Struct, frozen=True):
    num_steps: int
    finish_reason: str
    stop: str | None


class KVCacheReport(msgspec.Struct, frozen=True):
    block_size: int
    num_blocks: int
    num_blocks_total: int
    num_bytes: int
    num_prompt_tokens: int
    num_prefix_tokens: int  # prompt positions whose rows were reused
    decoded_prefix: list[tuple[int, int]]  # positions [from, to) of them that an earlier answer had written
    rows_computed: int
    rows_reused: int  # sum over steps of the earlier rows each step read
    prefill_ms: float
    decode_ms: float
    num_decode_steps: int
    decode_multiply_adds: int
    decode_forward_ms: float  # of the passes it decoded in, without what lies between them
    decode_bytes_read: int  # by these passes: all weights once a pass, and keys and values of everybody in it
    gigabytes_per_second: float | None  # read by these passes
    events: list[Event]  # of the sequence in the engine


class DetokenizeReport(msgspec.Struct, frozen=True):
    num_tokens: int
    num_bytes: int
    num_characters: int
    num_held_back: int  # steps after which a partial character or possible stop string was held


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


Report = (
    RequestReport | GatewayReport | RetrievalReport | PromptReport | InputSafetyReport | RoutingReport | TokensReport
    | TokenIdsReport | ModelStageReport | LogitsReport | ProbabilitiesReport | SamplingReport | AppendReport
    | KVCacheReport | DetokenizeReport | OutputSafetyReport | StreamReport | StorageReport
)  # fmt: skip

REPORTS: dict[str, type[msgspec.Struct]] = {
    "request": RequestReport,
    "gateway": GatewayReport,
    "retrieval": RetrievalReport,
    "prompt": PromptReport,
    "input_safety": InputSafetyReport,
    "routing": RoutingReport,
    "tokens": TokensReport,
    "token_ids": TokenIdsReport,
    **dict.fromkeys(
        ("embeddings", "positions", "qkv", "scores", "scale", "mask", "softmax", "weighted_sum", "heads",
         "residual_norm", "feed_forward"),
        ModelStageReport,
    ),
    "logits": LogitsReport,
    "probabilities": ProbabilitiesReport,
    "sampling": SamplingReport,
    "append": AppendReport,
    "kv_cache": KVCacheReport,
    "detokenize": DetokenizeReport,
    "output_safety": OutputSafetyReport,
    "stream": StreamReport,
    "storage": StorageReport,
}  # fmt: skip
