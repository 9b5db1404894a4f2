"""Every message the service sends on the WebSocket, as types. From these and a client's (webtrace/client_events.py) the
JSON Schema and AsyncAPI documents are generated."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from inference.messages import Candidate, Ledger, Sampling
from webtrace.client_events import Branch

FinishReason = Literal[
    "stop", "refusal", "length", "content_filter", "cancelled", "disconnected", "error", "refused", "worker_lost"
]  # fmt: skip


class ResponseEvent(msgspec.Struct, frozen=True, kw_only=True):
    """What every event of a response bears. `sequence_number` starts at 1 in every epoch."""

    response_id: str
    epoch: int = 0
    sequence_number: int = 0


class ErrorBody(msgspec.Struct, frozen=True):
    code: str
    message: str
    field: str | None = None
    retry_after: float | None = None


class Usage(msgspec.Struct, frozen=True):
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0


class ResponseCreated(ResponseEvent, frozen=True, kw_only=True, tag="response.created"):
    """`event_id` repeats the client's; `message_id` is the stored user message, `answer_id` the answer's."""

    event_id: str
    conversation_id: str | None
    message_id: str | None
    answer_id: str | None
    parent_id: str | None
    title: str | None
    model: str
    sampling: Sampling
    created_at: str
    branch: Branch | None = None


class ResponseQueued(ResponseEvent, frozen=True, kw_only=True, tag="response.queued"):
    """`position` counts the jobs before this one."""

    position: int


class ResponseInProgress(ResponseEvent, frozen=True, kw_only=True, tag="response.in_progress"):
    """`sampling` is what the answer is chosen with: what the request left open is as this worker's model has it, which
    may differ from `response.created` where another worker, or none, was known then."""

    worker_id: str
    model: str
    fingerprint: str
    sampling: Sampling


class TextDelta(ResponseEvent, frozen=True, kw_only=True, tag="response.output_text.delta"):
    delta: str


class TextRetracted(ResponseEvent, frozen=True, kw_only=True, tag="response.output_text.retracted"):
    """The last `characters` code points of the answer are taken back."""

    characters: int
    reason: str


class TraceStage(ResponseEvent, frozen=True, kw_only=True, tag="trace.stage"):
    """One stage has run. `input`, `operation` and `output` are one line each with this request's own values.

    `outcome` "ended_here" marks the stage that refused or failed the request. `data` is the stage's report
    (webtrace/reporting). `started_ms` counts from the arrival in the web process for stages 1-2, from the worker's
    taking of the job for the others, time held left out.
    """

    stage: str
    outcome: Literal["passed", "skipped", "ended_here"] = "passed"
    clock: Literal["web", "worker"] = "worker"
    started_ms: float | None
    duration_ms: float | None
    input: str
    operation: str
    output: str
    data: dict[str, Any]


class KVState(msgspec.Struct, frozen=True):
    num_blocks: int
    rows_computed: int
    rows_reused: int


class StepTiming(msgspec.Struct, frozen=True):
    at_ms: float  # after the worker's taking of the job, time held left out
    forward_ms: float
    sample_ms: float
    batch_size: int


class TraceStep(ResponseEvent, frozen=True, kw_only=True, tag="trace.step"):
    """One generated token. `raw_logprob` is the model's (softmax of the raw logits), `logprob` the sampler's after
    all filters, both natural; `text` is what this step released ("" while something is held back).

    `given` marks the tokens a branch begins with: the sampler did not choose them, and `logprob` is null where its
    filters would have removed them. Sent, like the text itself, only once output safety has released the text the
    token belongs to.
    """

    step: int
    position: int
    token: int
    token_text: str
    text: str
    held_bytes: int
    raw_logprob: float | None
    logprob: float | None
    rank: int
    entropy: float
    candidates: list[Candidate]
    ledger: Ledger
    kv: KVState
    timing: StepTiming
    given: bool = False


class TraceDropped(ResponseEvent, frozen=True, kw_only=True, tag="trace.dropped"):
    """Trace events with numbers from `first` to `last` were not sent to this slow socket; the log has them."""

    first: int
    last: int


class ResponseHeld(ResponseEvent, frozen=True, kw_only=True, tag="response.held"):
    """The response stands at this place; `step` is null before the model's first step and after its last. It goes on
    by itself after `releases_after_s` seconds; a watched response only, as ever.

    Holding after a step shows the text up to there, if safety lets it pass as it stands: half of a number or of an
    address stays back.
    """

    stage: str
    step: int | None
    reason: Literal["breakpoint"]
    releases_after_s: float


class ResponseContinued(ResponseEvent, frozen=True, kw_only=True, tag="response.continued"):
    """The hold is over. `held_ms` is left out of every time and latency of this response."""

    stage: str
    step: int | None
    by: Literal["request", "timeout"]
    held_ms: float


class ResponseEnd(ResponseEvent, frozen=True, kw_only=True):
    """Exactly one end a response. `text` is the whole released answer, so that a reader can check its own."""

    finish_reason: FinishReason
    text: str
    usage: Usage
    error: ErrorBody | None = None


class ResponseCompleted(ResponseEnd, frozen=True, kw_only=True, tag="response.completed"):
    pass


class ResponseIncomplete(ResponseEnd, frozen=True, kw_only=True, tag="response.incomplete"):
    pass


class ResponseCancelled(ResponseEnd, frozen=True, kw_only=True, tag="response.cancelled"):
    pass


class ResponseFailed(ResponseEnd, frozen=True, kw_only=True, tag="response.failed"):
    pass


class ResponseInterrupted(ResponseEnd, frozen=True, kw_only=True, tag="response.interrupted"):
    """Its worker was lost. Of the epoch before, events up to `last_sequence_number` count; later ones are void."""

    last_sequence_number: int


class TraceAttention(msgspec.Struct, frozen=True, tag="trace.attention"):
    """What the watched head read before it chose `step`: unnumbered, not in the log, and not of every step when they
    come fast. `weights` is base64 of one byte a key, from 0 to 255 = `largest`; exact rows are views."""

    response_id: str
    step: int
    layer: int
    head: int
    largest: float
    weights: str


class SocketError(msgspec.Struct, frozen=True, tag="error"):
    """A frame that could not be taken as a message. It belongs to the socket, not to a response."""

    code: str
    message: str
    field: str | None = None
    event_id: str | None = None
    retry_after: float | None = None


End = ResponseCompleted | ResponseIncomplete | ResponseCancelled | ResponseFailed | ResponseInterrupted
LoggedEvent = (
    ResponseCreated | ResponseQueued | ResponseInProgress | TextDelta | TextRetracted | TraceStage | TraceStep
    | ResponseHeld | ResponseContinued | End
)  # fmt: skip
ServerMessage = LoggedEvent | TraceDropped | TraceAttention | SocketError

END_TYPES = frozenset(
    {
        "response.completed",
        "response.incomplete",
        "response.cancelled",
        "response.failed",
        "response.interrupted",
    }
)

# Close codes after accept.
CLOSE_BAD_FRAMES = 4400
CLOSE_UNAUTHENTICATED = 4401
CLOSE_FORBIDDEN = 4403
CLOSE_IDLE = 4408
CLOSE_TOO_MANY = 4429
CLOSE_GOING_AWAY = 1012
CLOSE_TRY_LATER = 1013
