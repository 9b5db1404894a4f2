"""Every message between a worker and its engine child, as types.

Both directions are tagged unions encoded by msgspec (MessagePack), one message a frame. Token ids travel,
text only where the engine is the edge: stop strings in, finished pieces of text out.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

FilterName = Literal["logit_bias", "penalties", "temperature", "top_k", "top_p", "min_p"]
EngineFinish = Literal["stop", "length", "cancelled", "error"]
EventName = Literal[
    "queued", "scheduled", "first_token", "preempted", "resumed", "held", "continued", "finished"
]  # fmt: skip


class Sampling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the next token is chosen. Filters run in the order of the fields.

    `temperature` 0 is greedy. `top_k` 0 or at least the vocabulary, and `top_p` 1, and `min_p` 0 are off.
    """

    logit_bias: dict[int, float] = {}
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    temperature: float = 0.8
    top_k: int = 50
    top_p: float = 0.95
    min_p: float = 0.0
    seed: int | None = None
    max_tokens: int = 200
    stop: list[str] = []


class AskedSampling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a request says about sampling, see `Sampling`. What it leaves out, or null, is as the model's checkpoint
    has it (`sampling` of the model), or else the service's own default."""

    logit_bias: dict[int, float] | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    seed: int | None = None
    max_tokens: int | None = None
    stop: list[str] | None = None

    def over(self, defaults: Sampling) -> Sampling:
        """These parameters, and the defaults where nothing is said."""
        said = {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not None}
        return msgspec.structs.replace(defaults, **said)


# ---------------------------------------------------------------- worker to engine


class Generate(msgspec.Struct, frozen=True, tag="generate"):
    """Answer these token ids. `sampling.seed` must be set: the worker draws one where the user gave none."""

    response_id: str
    token_ids: list[int]
    sampling: Sampling
    stop_token_ids: list[int]
    owner: str  # prefix reuse is private to it
    record: bool  # keep the residual stream for views
    num_shared_tokens: int = 0  # leading tokens that are the operator's own, the same for every owner
    given: list[int] = []  # what the answer begins with: taken as it is, one a step, where others are drawn
    breakpoints: list[int] = []  # steps after which the sequence is held until `Continue` or `Cancel`


class Continue(msgspec.Struct, frozen=True, tag="continue"):
    """Let a held sequence go on. `breakpoints` are the steps after which it is held again, instead of those before."""

    response_id: str
    breakpoints: list[int] = []


class Cancel(msgspec.Struct, frozen=True, tag="cancel"):
    response_id: str


class Subject(msgspec.Struct, frozen=True):
    """A response to look into: enough to find what the engine recorded of it, or to rebuild it."""

    response_id: str
    fingerprint: str  # of the engine that computed it: another one refuses
    token_ids: list[int]  # prompt and answer, as far as they may be seen
    num_prompt_tokens: int
    decoded_prefix: list[tuple[int, int]] = []  # positions [from, to) of the prompt that went through one by one
    logprobs: list[float | None] = []  # raw ones of the answer as recorded, to compare what is rebuilt with


class ViewRequest(msgspec.Struct, frozen=True, tag="view"):
    """Ask for one view of a response, or of two that are compared."""

    request_id: str
    slug: str
    query: dict[str, Any]
    subject: Subject
    other: Subject | None = None


class Embed(msgspec.Struct, frozen=True, tag="embed"):
    request_id: str
    texts: list[str]


class Judge(msgspec.Struct, frozen=True, tag="judge"):
    """Scores of the safety heads for each text."""

    request_id: str
    texts: list[str]


class Shutdown(msgspec.Struct, frozen=True, tag="shutdown"):
    pass


ToEngine = Generate | Continue | Cancel | ViewRequest | Embed | Judge | Shutdown


# ---------------------------------------------------------------- engine to worker


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The engine has loaded its checkpoint. `model` describes it (name, architecture, dimensions, parameters)."""

    fingerprint: str
    model: dict[str, Any]
    device: str
    kernel: str
    threads: int
    num_blocks: int
    block_size: int
    cut: int
    safety: dict[str, Any] | None  # labels, thresholds, technique and version of the safety heads

    @property
    def capacity(self) -> int:
        """Tokens of the longest sequence: the model's context, or as much of it as the cache holds."""
        context_length: int = self.model["context_length"]
        return min(context_length, self.num_blocks * self.block_size)


class Started(msgspec.Struct, frozen=True, tag="started"):
    """A sequence left the engine's queue."""

    response_id: str
    queue_ms: float
    batch_size: int  # sequences running with it, itself included
    num_prefix_tokens: int  # prompt tokens whose K and V were already there
    decoded_prefix: list[tuple[int, int]]  # positions [from, to) of them that were computed token by token
    max_tokens: int  # what the answer may really have: less than asked for where the context ends before
    recorded: bool  # whether the residual stream is kept; if not, views are rebuilt


class StageTime(msgspec.Struct, frozen=True):
    """Time of one model stage summed over the layers of the prefill. A stage that no pass went through has none."""

    stage: str
    started_ms: float | None  # after the sequence's own start
    duration_ms: float | None
    multiply_adds: int


class Prefilled(msgspec.Struct, frozen=True, tag="prefilled"):
    """The whole prompt has been pushed through the layers: sent right before step 0."""

    response_id: str
    num_computed: int
    num_reused: int
    num_cuts: int
    duration_ms: float
    stages: list[StageTime]
    logits: dict[str, Any]  # of step 0: top and bottom (id, value), min, max, mean, std


class Candidate(msgspec.Struct, frozen=True, array_like=True):
    """One row of the probability table. `raw_probability` is the softmax of the raw logits over the whole
    vocabulary; `probability` the sampler's own, after all filters (0 when a filter removed the token)."""

    id: int
    text: str
    logit: float
    raw_probability: float
    probability: float


class FilterResult(msgspec.Struct, frozen=True):
    """What one filter did: tokens left, and the probability mass it removed (of the mass it was given)."""

    name: FilterName
    value: Any
    active: bool
    num_survivors: int
    removed_mass: float


class Ledger(msgspec.Struct, frozen=True):
    """Every filter in order, then the draw: a uniform number in [0, 1) keyed by (seed, step), null when greedy."""

    filters: list[FilterResult]
    draw: float | None
    greedy: bool


class Step(msgspec.Struct, frozen=True):
    """One generated token. Log-probabilities are natural; `entropy` in nats, of the raw distribution."""

    response_id: str
    step: int
    token: int
    token_text: str  # the token's own bytes as text, escapes for what is not whole UTF-8
    text: str  # what may now be shown: "" while a character or a possible stop string is held back
    held_bytes: int  # bytes of an unfinished character or possible stop string still held back
    raw_logprob: float | None
    logprob: float | None
    rank: int  # 0 is the most probable by raw logit
    entropy: float
    candidates: list[Candidate]
    ledger: Ledger
    num_blocks: int
    forward_ms: float
    sample_ms: float
    batch_size: int
    given: bool = False  # the token was given with the request, not drawn


class Steps(msgspec.Struct, frozen=True, tag="steps"):
    """All tokens of one engine step, and the state of the machine after it."""

    items: list[Step]
    num_running: int
    num_waiting: int
    num_free_blocks: int


class Held(msgspec.Struct, frozen=True, tag="held"):
    """A sequence stands after this step: it keeps its blocks and takes no further step until it is told to."""

    response_id: str
    step: int


class Event(msgspec.Struct, frozen=True, array_like=True):
    """What happened to a sequence: preempted is moved out of the cache for others, resumed is brought back."""

    name: EventName
    at_ms: float  # after it was queued in the engine, on the engine's monotonic clock


class Ended(msgspec.Struct, frozen=True, tag="ended"):
    """The last word on a sequence. Times leave out what it was held."""

    response_id: str
    finish: EngineFinish
    text: str  # held-back text released by the end
    num_prompt_tokens: int
    num_prefix_tokens: int
    token_ids: list[int]  # the answer's, the end token included
    stop: str | None = None  # the stop string that matched, or the end token's name
    error: str | None = None
    prefill_ms: float = 0.0
    decode_ms: float = 0.0
    num_blocks: int = 0
    num_bytes: int = 0
    multiply_adds: int = 0  # of its decoding steps
    forward_ms: float = 0.0  # of the decoding passes it took part in
    bytes_read: int = 0  # by these passes: all weights once a pass, and keys and values of everybody in it
    events: list[Event] = []


class ViewReply(msgspec.Struct, frozen=True, tag="viewed"):
    """`body` is safetensors bytes with the JSON part under metadata "view"; else `field` and `error` say why."""

    request_id: str
    body: bytes | None = None
    error: str | None = None
    field: str | None = None


class Embedded(msgspec.Struct, frozen=True, tag="embedded"):
    request_id: str
    embeddings: list[list[float]]
    error: str | None = None


class Judged(msgspec.Struct, frozen=True, tag="judged"):
    """`scores[i][label]` for text i."""

    request_id: str
    scores: list[dict[str, float]]
    error: str | None = None


class Broken(msgspec.Struct, frozen=True, tag="broken"):
    """The engine could not start, with one sentence that says what to do."""

    reason: str


FromEngine = Ready | Started | Prefilled | Steps | Held | Ended | ViewReply | Embedded | Judged | Broken
