"""The step loop: responses in, messages out.

One engine owns one decoder and its memory. Nothing here waits: whoever owns the engine calls `step` as long as
`has_work`, and gives it requests in between.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence as Seq
from time import monotonic
from typing import Any, NamedTuple

import torch
from torch import Tensor

from inference.answer import Answer
from inference.aside import Aside
from inference.blocks import BlockAllocator
from inference.cache import KVCache, ResidualPool
from inference.ending import ending
from inference.fault import first_fault
from inference.messages import (
    Candidate,
    Continue,
    EngineFinish,
    FromEngine,
    Generate,
    Held,
    Prefilled,
    Ready,
    Started,
    Step,
    Steps,
)
from inference.model.decoder import CUT, Decoder
from inference.parameters import objection
from inference.prefill import PrefillRecord
from inference.reading import Reader
from inference.sampling import NonFiniteLogits, Sampled, sample
from inference.scheduler import Scheduler
from inference.sequence import Sequence
from inference.text import Tokenizer
from inference.traffic import weight_bytes

logger = logging.getLogger(__name__)


class _Row(NamedTuple):
    """The logits of one sequence's next token [vocabulary], and the forward pass they come from."""

    sequence: Sequence
    logits: Tensor
    forward_ms: float
    batch_size: int


class Engine:
    """Continuous batching over one decoder. A residual pool of no blocks records nothing; without blocks aside, only
    responses that fit into the cache at their full length run together."""

    def __init__(
        self,
        decoder: Decoder,
        tokenizer: Tokenizer,
        cache: KVCache,
        residuals: ResidualPool,
        *,
        num_aside: int = 0,
        max_running: int = 32,
    ) -> None:
        self.decoder = decoder
        self.tokenizer = tokenizer
        self.cache = cache
        self.residuals = residuals
        allocator = BlockAllocator(cache.num_blocks, cache.block_size, CUT, residuals.num_blocks)
        self.scheduler = Scheduler(allocator, Aside(cache, num_aside), max_running)
        self._capacity = min(decoder.config.context_length, cache.num_blocks * cache.block_size)
        self._outbox: list[FromEngine] = []
        self._prefills: dict[str, PrefillRecord] = {}
        self._weight_bytes = weight_bytes(decoder)
        self._reader = Reader(decoder, cache, residuals, self.scheduler)

    @property
    def has_work(self) -> bool:
        """Whether `step` would do or say anything."""
        return bool(self._outbox) or self.scheduler.has_work

    def submit(self, request: Generate) -> None:
        """Puts a response in the queue. What cannot be answered ends with an error in the next step.

        A response that is already being answered stays as it is.
        """
        known = self.scheduler.find(request.response_id)
        if known is not None and not known.ended:
            logger.warning("Response %s was submitted twice.", request.response_id)
            return
        reason = objection(request, self.decoder.config.vocabulary, self._capacity)
        room = self._capacity - len(request.token_ids)
        sampling = request.sampling
        sequence = Sequence(
            request=request,
            answer=Answer(self.tokenizer, request.stop_token_ids, [stop for stop in sampling.stop if stop]),
            max_tokens=max(min(sampling.max_tokens, room), 1),
            submitted=monotonic(),
            record=request.record,
            token_ids=list(request.token_ids),
            breakpoints=frozenset(request.breakpoints),
        )
        if reason is not None:
            self._outbox.append(ending(sequence, "error", reason, sequence.submitted, self.decoder.config, self.cache))
            return
        sequence.digests = self.scheduler.allocator.digests(request.token_ids, request.owner, request.num_shared_tokens)
        sequence.note("queued", sequence.submitted)
        self.scheduler.submit(sequence)

    def proceed(self, request: Continue) -> None:
        """Ends the hold of a response and says where it is held again. Unknown ids are ignored."""
        sequence = self.scheduler.find(request.response_id)
        if sequence is not None and not sequence.ended:
            sequence.breakpoints = frozenset(request.breakpoints)
            sequence.go_on(monotonic())

    def cancel(self, response_id: str) -> None:
        """Ends a waiting or running response; nothing more is computed for it. Unknown ids are ignored."""
        sequence = self.scheduler.find(response_id)
        if sequence is not None and not sequence.ended:
            self._finish(sequence, "cancelled")

    def step(self) -> list[FromEngine]:
        """One token for every running response and part of one cut of one prompt, or a whole cut where nothing else
        runs; returns what there is to tell."""
        turn = self.scheduler.next_turn()
        began = monotonic()
        for sequence in turn.moved:
            sequence.note("preempted", began)
        for sequence in turn.returned:
            sequence.note("resumed", began)
        started = [self._start(sequence, began) for sequence in turn.started]
        rows = self._decode(turn.decoding)
        items = [step for row in rows if (step := self._choose(row)) is not None]
        prefilled, first_rows = self._read(len(rows), monotonic() - began)
        items += [step for row in first_rows if (step := self._choose(row)) is not None]
        steps = [self._with_state(items)] if items else []
        told, self._outbox = self._outbox, []
        return [*started, *prefilled, *steps, *told]

    # ------------------------------------------------------------ the parts of a step

    def _start(self, sequence: Sequence, now: float) -> Started:
        sequence.started = now
        sequence.note("scheduled", now)
        self._prefills[sequence.response_id] = PrefillRecord(sequence.started)
        return Started(
            response_id=sequence.response_id,
            queue_ms=1e3 * (sequence.started - sequence.submitted),
            batch_size=len(self.scheduler.running),
            num_prefix_tokens=sequence.num_prefix_tokens,
            decoded_prefix=sequence.decoded_prefix,
            max_tokens=sequence.max_tokens,
            recorded=sequence.record,
        )

    def _decode(self, batch: list[Sequence]) -> list[_Row]:
        """The next token's logits of every sequence that has read its prompt, in one pass."""
        if not batch:
            return []
        began = monotonic()
        try:
            chunks = [sequence.next_chunk() for sequence in batch]
            logits = self.decoder.forward(chunks, self.cache, self.residuals).cpu()
        except Exception as error:  # whatever it was, these responses end and the engine lives
            logger.exception("A decoding step failed.")
            self._fail(batch, error)
            return []
        seconds = monotonic() - began
        for sequence in batch:
            self.scheduler.computed(sequence, 1)
        rows_read = sum(sequence.num_computed for sequence in batch)
        for sequence in batch:
            sequence.forward_s += seconds
            sequence.bytes_read += self._weight_bytes + rows_read * self.cache.bytes_per_token
        return [_Row(s, row, 1e3 * seconds, len(batch)) for s, row in zip(batch, logits, strict=True)]

    def _read(self, num_answers: int, step_seconds: float) -> tuple[list[Prefilled], list[_Row]]:
        """Reads prompts beside a step of so many answers that took so long; with a prompt's last cut come the logits
        of step 0."""
        prefilled: list[Prefilled] = []
        rows: list[_Row] = []
        try:
            for cut, logits in self._reader.read(num_answers, step_seconds):
                sequence, chunk = cut.sequence, cut.chunk
                record = self._prefills[sequence.response_id]
                record.add(self.decoder.config, cut.clock, chunk, cut.began, cut.seconds)
                self.scheduler.computed(sequence, len(chunk.token_ids))
                if chunk.wants_logits:
                    sequence.prefilled = monotonic()
                    del self._prefills[sequence.response_id]
                    prefilled.append(record.report(sequence.response_id, sequence.num_prefix_tokens, logits[0]))
                    rows.append(_Row(sequence, logits[0], 1e3 * cut.seconds, 1))
        except Exception as error:
            logger.exception("Reading a prompt failed.")
            read = self._reader.sequence
            reading = [one for one in self.scheduler.running if one.is_reading]
            failed = reading if read is None or read.ended else [read]
            if not failed:
                raise
            self._fail(failed, error)
        return prefilled, rows

    def _choose(self, row: _Row) -> Step | None:
        """Draws the token, appends it, and ends or holds the response where it ends or has a breakpoint."""
        sequence = row.sequence
        answer = sequence.answer
        number = len(answer.token_ids)
        given = sequence.given(number)
        began = monotonic()
        try:
            with torch.inference_mode():
                sampled = sample(row.logits, sequence.token_ids, sequence.request.sampling, number, given)
        except NonFiniteLogits as error:
            where = first_fault(sequence, self.cache, self.residuals)
            self._fail([sequence], NonFiniteLogits(f"{error} The first such number came up {where}."))
            return None
        sample_ms = 1e3 * (monotonic() - began)
        if number == 0:
            sequence.note("first_token", monotonic())
        sequence.token_ids.append(sampled.token)
        text = answer.push(sampled.token)
        step = self._describe(row, sampled, text, number, sample_ms)
        if answer.stop is not None:
            self._finish(sequence, "stop")
        elif len(answer.token_ids) == sequence.max_tokens:
            self._finish(sequence, "length")
        elif number in sequence.breakpoints:
            sequence.hold(monotonic())
            self._outbox.append(Held(sequence.response_id, number))
        return step

    def _finish(self, sequence: Sequence, finish: EngineFinish, error: str | None = None) -> None:
        now = monotonic()
        sequence.ended = True
        sequence.go_on(now)
        sequence.note("finished", now)
        self._prefills.pop(sequence.response_id, None)
        self._outbox.append(ending(sequence, finish, error, now, self.decoder.config, self.cache))
        self.scheduler.finish(sequence, keep=finish != "error")

    def _fail(self, sequences: Seq[Sequence], error: Exception) -> None:
        for sequence in sequences:
            self._finish(sequence, "error", str(error) or type(error).__name__)

    # ------------------------------------------------------------ messages

    def _describe(self, row: _Row, sampled: Sampled, text: str, number: int, sample_ms: float) -> Step:
        sequence, token_text = row.sequence, self.tokenizer.token_text
        return Step(
            response_id=sequence.response_id,
            step=number,
            token=sampled.token,
            token_text=token_text(sampled.token),
            text=text,
            held_bytes=sequence.answer.num_held_bytes,
            raw_logprob=sampled.raw_logprob,
            logprob=sampled.logprob,
            rank=sampled.rank,
            entropy=sampled.entropy,
            candidates=[Candidate(one.id, token_text(one.id), *one[1:]) for one in sampled.candidates],
            ledger=sampled.ledger,
            num_blocks=self.scheduler.allocator.num_needed(len(sequence.token_ids)),
            forward_ms=row.forward_ms,
            sample_ms=sample_ms,
            batch_size=row.batch_size,
            given=sequence.given(number) is not None,
        )

    def _with_state(self, items: list[Step]) -> Steps:
        scheduler = self.scheduler
        return Steps(
            items, len(scheduler.running), len(scheduler.waiting) + len(scheduler.aside), scheduler.num_available
        )

    def ready(self, model: dict[str, Any], safety: dict[str, Any] | None) -> Ready:
        """What this engine is. `model` and `safety` describe what was loaded."""
        return Ready(
            fingerprint=self.decoder.fingerprint,
            model=model,
            device=self.decoder.plan.device,
            kernel=self.decoder.plan.linear,
            threads=torch.get_num_threads(),
            num_blocks=self.cache.num_blocks,
            block_size=self.cache.block_size,
            cut=CUT,
            safety=safety,
        )
