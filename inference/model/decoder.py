"""The decoder: token ids in, logits out, keys, values and residual streams kept on the way."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import torch
from torch import Tensor

from inference.cache import KVCache, ResidualPool
from inference.checkpoint import Checkpoint, ModelConfig, Rotary
from inference.model.attention import Attention, Capture, Span, causal_mask
from inference.model.clock import SILENT, Clock
from inference.model.embedding import embedding_lookup
from inference.model.feed_forward import FeedForward
from inference.model.linear import DenseLinear, Linear, PackedHead, make_head, make_linear
from inference.model.norm import RMSNorm
from inference.model.plan import KernelPlan, make_plan
from inference.model.qkv import QKV
from inference.model.rope import rotary_table

CUT = 128
"""Prompts are computed in pieces that end at multiples of this, whatever the load: the order of sums in
attention depends on where a prompt was cut, and a response's numbers must not depend on the crowd."""


@dataclass(frozen=True)
class Chunk:
    """Consecutive new tokens of one sequence for one step."""

    token_ids: Sequence[int]
    """One in decode, at most CUT in prefill."""
    start: int
    """Position of the first of them."""
    blocks: Sequence[int]
    """Block ids covering positions 0 to start + len(token_ids) - 1."""
    wants_logits: bool
    record: bool
    """Whether to keep the residual stream of these positions."""

    @property
    def end(self) -> int:
        """The position after the last of them."""
        return self.start + len(self.token_ids)


@dataclass(frozen=True)
class Layer:
    """One layer: attention, then feed-forward, each added to the residual stream."""

    attention: Attention
    feed_forward: FeedForward


class Decoder:
    """A decoder of the Llama family. Holds weights and nothing that changes."""

    def __init__(
        self,
        config: ModelConfig,
        plan: KernelPlan,
        fingerprint: str,
        *,
        embedding: Tensor,
        layers: Sequence[Layer],
        final_norm: RMSNorm,
        head: DenseLinear | PackedHead,
    ) -> None:
        self.config = config
        self.plan = plan
        self.fingerprint = fingerprint
        """What the numbers depend on: checkpoint hash, kernel plan, torch version."""
        self.device = torch.device(plan.device)
        self.embedding = embedding
        self.layers = layers
        self.final_norm = final_norm
        self.head = head
        rotaries = {kind.rotary for kind in config.layers if kind.rotary is not None}
        self.turns: dict[Rotary | None, Tensor] = {
            rotary: rotary_table(config.context_length, config.head_width, rotary).to(self.device)
            for rotary in rotaries
        }
        """By the layer's rotary positions, what turns a query or key at each position (see `rotary_table`)."""

    @classmethod
    def load(
        cls, checkpoint: Checkpoint, *, device: str = "auto", kernel: str = "auto", remembered: Path | None = None
    ) -> "Decoder":
        """Reads the weights into the kernels of the plan. `remembered`: see make_plan. Raises ValueError
        if the plan cannot be had here."""
        config = checkpoint.config
        plan = make_plan(checkpoint, device, kernel, remembered)
        where = torch.device(plan.device)
        if plan.device == "cpu":
            torch.set_num_threads(plan.threads)

        def vector(name: str) -> Tensor:
            return torch.from_numpy(checkpoint.tensor(name)).to(where)

        def norm(name: str) -> RMSNorm:
            return RMSNorm(vector(name), config.rms_epsilon)

        def optional_norm(wanted: bool, name: str) -> RMSNorm | None:
            return norm(name) if wanted else None

        def linear(*names: str, biased: bool) -> Linear:
            return make_linear(plan.linear, checkpoint, names, where, biased=biased)

        layers = []
        for number in range(config.n_layers):
            at = f"layers.{number}."
            attention = Attention(
                config,
                number,
                norm=norm(at + "attention_norm"),
                qkv=linear(at + "q", at + "k", at + "v", biased=config.qkv_bias),
                q_norm=optional_norm(config.query_key_norm, at + "q_norm"),
                k_norm=optional_norm(config.query_key_norm, at + "k_norm"),
                output=linear(at + "output", biased=config.output_bias),
                post_norm=optional_norm(config.post_norm, at + "attention_post_norm"),
            )
            feed_forward = FeedForward(
                config,
                norm=norm(at + "feed_forward_norm"),
                gate_up=linear(at + "gate", at + "up", biased=config.feed_forward_bias),
                down=linear(at + "down", biased=config.feed_forward_bias),
                post_norm=optional_norm(config.post_norm, at + "feed_forward_post_norm"),
            )
            layers.append(Layer(attention, feed_forward))
        embedding = vector("embedding")
        head_weight = embedding if config.tied_head else vector("head")
        return cls(
            config,
            plan,
            f"{checkpoint.sha256[:16]}/{plan}/torch-{torch.__version__}",
            embedding=embedding,
            layers=layers,
            final_norm=norm("final_norm"),
            head=make_head(plan.head, head_weight),
        )

    @torch.inference_mode()
    def forward(
        self,
        chunks: Sequence[Chunk],
        cache: KVCache,
        residuals: ResidualPool | None = None,
        clock: Clock = SILENT,
        capture: Capture | None = None,
    ) -> Tensor:
        """Computes the new tokens of every chunk; writes their keys, values and (if recorded) states.

        Chunks may follow each other in one sequence: in every layer a chunk's keys are written before the next
        chunk looks at them.

        Returns logits of the last token of each chunk that wants them, float32 [chunks that want, vocabulary].
        Raises ValueError for an empty or overlong chunk, an unknown token id, or blocks that do not suffice.
        """
        pieces = self.piece_by_piece(chunks, cache, residuals, clock, capture)
        while True:
            try:
                next(pieces)
            except StopIteration as end:
                logits: Tensor = end.value
                return logits

    def piece_by_piece(
        self,
        chunks: Sequence[Chunk],
        cache: KVCache,
        residuals: ResidualPool | None = None,
        clock: Clock = SILENT,
        capture: Capture | None = None,
    ) -> Generator[None, None, Tensor]:
        """The same in pieces: stops after the attention and the feed-forward of every layer.

        In inference mode as the caller sets it.
        """
        self._check(chunks)
        token_ids = torch.tensor([i for chunk in chunks for i in chunk.token_ids], device=self.device)
        qkv = QKV(self.config, len(token_ids), self.device)
        spans = _spans(self.config, chunks, cache, qkv)
        turns = {
            rotary: torch.cat([table[chunk.start : chunk.end] for chunk in chunks])
            for rotary, table in self.turns.items()
        }
        recorded_in_place = _place(chunks, residuals)
        if recorded_in_place is None:
            stream = torch.empty(self.config.n_layers + 1, len(token_ids), self.config.width, device=self.device)
        else:
            stream = recorded_in_place
        states = stream[0]
        states.copy_(embedding_lookup(self.embedding, token_ids, self.config.embedding_multiplier))
        clock.mark("embeddings")
        for layer, new_states in zip(self.layers, stream[1:].unbind(0), strict=True):
            attention = layer.attention
            middle = states + attention(states, qkv, turns.get(attention.kind.rotary), spans, clock, capture)
            yield
            states = torch.add(middle, layer.feed_forward(middle, clock), out=new_states)
            yield
        if residuals is not None and recorded_in_place is None:
            _record(chunks, stream, residuals)
        clock.mark("residual_norm")
        ends = accumulate(len(chunk.token_ids) for chunk in chunks)
        last = [end - 1 for end, chunk in zip(ends, chunks, strict=True) if chunk.wants_logits]
        logits = self.logits(states[last]) if last else torch.empty(0, self.config.vocabulary)
        clock.mark("logits")
        return logits

    def logits(self, states: Tensor) -> Tensor:
        """The vocabulary's logits of states that left a layer: [n, width] -> float32 [n, vocabulary]."""
        return self.head(self.final_norm(states)).float()

    def vocabulary_row(self, token: int) -> Tensor:
        """The output head's weights for one token: float32 [width]."""
        return self.head.weight[token].float()

    def _check(self, chunks: Sequence[Chunk]) -> None:
        if not chunks:
            raise ValueError("chunks: a step needs at least one")
        for chunk in chunks:
            count, end = len(chunk.token_ids), chunk.end
            if not 1 <= count <= CUT:
                raise ValueError(f"token_ids: a chunk has 1 to {CUT} tokens, not {count}")
            if not chunk.start >= 0 or end > self.config.context_length:
                raise ValueError(
                    f"start: positions {chunk.start} to {end - 1} leave the context of {self.config.context_length}"
                )
            if min(chunk.token_ids) < 0 or max(chunk.token_ids) >= self.config.vocabulary:
                raise ValueError(f"token_ids: must be 0 to {self.config.vocabulary - 1}")


def _spans(config: ModelConfig, chunks: Sequence[Chunk], cache: KVCache, qkv: QKV) -> list[Span]:
    widths = {kind.window for kind in config.layers}
    spans, row = [], 0
    for chunk in chunks:
        stop = row + len(chunk.token_ids)
        window = cache.window(chunk.blocks, chunk.start, chunk.end)
        allowed = {width: _mask(chunk, width, cache.rows.device) for width in widths}
        spans.append(Span(config, qkv, slice(row, stop), chunk.start, window, allowed))
        row = stop
    return spans


def _mask(chunk: Chunk, window: int | None, device: torch.device) -> Tensor | None:
    count = len(chunk.token_ids)
    if count == 1 and (window is None or chunk.end <= window):
        return None
    return causal_mask(chunk.start, count, chunk.end, device, window=window)


def _place(chunks: Sequence[Chunk], residuals: ResidualPool | None) -> Tensor | None:
    """The pool's own memory for the residual stream, [n_layers + 1, rows, width], where a recorded chunk has the step
    for itself: then nothing needs to be copied."""
    if residuals is None or len(chunks) > 1 or not chunks[0].record:
        return None
    return residuals.place(chunks[0].blocks, chunks[0].start, chunks[0].end)


def _record(chunks: Sequence[Chunk], stream: Tensor, residuals: ResidualPool) -> None:
    """Stores the rows of the recorded chunks. stream [n_layers + 1, rows, width]."""
    row = 0
    for chunk in chunks:
        stop = row + len(chunk.token_ids)
        if chunk.record:
            residuals.write(residuals.slots(chunk.blocks, chunk.start, chunk.end), stream[:, row:stop])
        row = stop
