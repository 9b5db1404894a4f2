"""What the stages of the model report about one request, from its tokens to its text."""

from __future__ import annotations

from typing import Any

import msgspec

from inference.messages import Candidate, Event, Ledger
from webtrace.reporting.service_reports import Source


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
