"""Prompts are read beside running answers: a cut at a time, and of a cut as many pieces as the answers can wait for."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic

import torch
from torch import Tensor

from inference.cache import KVCache, ResidualPool
from inference.model.clock import StageClock
from inference.model.decoder import Decoder
from inference.pace import Pace
from inference.scheduler import Scheduler
from inference.sequence import Sequence


class Cut:
    """One cut of one prompt on its way through the layers.

    Where it is interrupted does not change its numbers: a piece is computed for the whole cut or not at all.
    """

    def __init__(self, decoder: Decoder, cache: KVCache, residuals: ResidualPool, sequence: Sequence) -> None:
        self.sequence = sequence
        self.chunk = sequence.next_chunk()
        self.clock = StageClock()
        self.began = monotonic()
        self.seconds = 0.0
        """Time spent on it so far."""
        self.piece_seconds = 0.0
        """What the next piece may take: as long as the last but one, for attention and feed-forward take turns."""
        self._latest_seconds = 0.0
        self._blocks = sequence.blocks[: -(-self.chunk.end // cache.block_size)]
        self._pieces = decoder.piece_by_piece([self.chunk], cache, residuals, self.clock)

    @property
    def is_valid(self) -> bool:
        """Whether the sequence is still there, and its blocks where they were when this began."""
        return not self.sequence.ended and self.sequence.blocks[: len(self._blocks)] == self._blocks

    def compute(self, until: float) -> Tensor | None:
        """Computes pieces until about that time (monotonic seconds), at least one. Returns the logits
        [1 or 0, vocabulary] when all are done, else None."""
        began = before = monotonic()  # before the stages' clock goes on: their times are parts of this one
        self.clock.skip()
        try:
            with torch.inference_mode():
                while True:
                    next(self._pieces)
                    now = monotonic()
                    self.piece_seconds, self._latest_seconds, before = self._latest_seconds, now - before, now
                    if now + self.piece_seconds / 2 > until:
                        return None
        except StopIteration as end:
            logits: Tensor = end.value
            return logits.cpu()
        finally:
            self.seconds += monotonic() - began


class Reader:
    """Takes the prompts' cuts in the scheduler's order, one at a time."""

    def __init__(self, decoder: Decoder, cache: KVCache, residuals: ResidualPool, scheduler: Scheduler) -> None:
        self._decoder, self._cache, self._residuals, self._scheduler = decoder, cache, residuals, scheduler
        self.sequence: Sequence | None = None
        """Whose prompt is being read, or was last."""
        self._cut: Cut | None = None
        self._pace = Pace()

    def read(self, num_answers: int, step_seconds: float) -> Iterator[tuple[Cut, Tensor]]:
        """Reads beside a step of so many answers that took so long, or with no answers one whole cut.

        Yields every cut that is done with its logits [1 or 0, vocabulary]; the caller tells the scheduler before it
        asks for the next.
        """
        until = float("inf")
        if num_answers:
            is_reading = self._current() is not None
            until = monotonic() + self._pace.allowance(num_answers, step_seconds, is_reading=is_reading)
        while (cut := self._current()) is not None:
            logits = cut.compute(until)
            if logits is None:
                return
            self._cut = None
            yield cut, logits
            if not num_answers or monotonic() + cut.piece_seconds / 2 > until:
                return

    def _current(self) -> Cut | None:
        """The cut that was begun, or the first of the sequence whose turn it is."""
        if self._cut is None or not self._cut.is_valid:
            self._cut = self.sequence = None  # what fails in the choice is not the former's
            self.sequence = self._scheduler.next_reading()
            if self.sequence is not None:
                self._cut = Cut(self._decoder, self._cache, self._residuals, self.sequence)
        return self._cut
