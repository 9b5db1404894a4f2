"""Prompts are read beside running answers: a cut at a time, and of a cut as many pieces as the answers can wait for."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from statistics import median
from time import monotonic

import torch
from torch import Tensor

from inference.cache import KVCache, ResidualPool
from inference.model.clock import StageClock
from inference.model.decoder import Decoder
from inference.scheduler import Scheduler
from inference.sequence import Sequence

MULTIPLE = 2.32
"""Time for reading between two steps of running answers, in times of such a step: so answers slow down by a known
factor at most, and a prompt keeps a known share of the machine."""
RECENT = 8
"""Steps of which the middle one is the measure: a step that was held up must not hold up the next one too."""


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
        self.cut: Cut | None = None
        """What is being computed, or was last."""
        self._steps: deque[float] = deque(maxlen=RECENT)

    def read(self, step_seconds: float | None) -> Iterator[tuple[Cut, Tensor]]:
        """Reads beside a step that took so long, or with nothing beside it one whole cut.

        Yields every cut that is done with its logits [1 or 0, vocabulary]; the caller tells the scheduler before it
        asks for the next.
        """
        until = float("inf") if step_seconds is None else monotonic() + self._allowance(step_seconds)
        while (cut := self._current()) is not None:
            logits = cut.compute(until)
            if logits is None:
                return
            self.cut = None
            yield cut, logits
            if step_seconds is None or monotonic() + cut.piece_seconds / 2 > until:
                return

    def _allowance(self, step_seconds: float) -> float:
        """Seconds for reading beside the step."""
        self._steps.append(step_seconds)
        return MULTIPLE * median(self._steps)

    def _current(self) -> Cut | None:
        """The cut that was begun, or the first of the sequence whose turn it is."""
        if self.cut is None or not self.cut.is_valid:
            sequence = self._scheduler.next_reading()
            self.cut = None if sequence is None else Cut(self._decoder, self._cache, self._residuals, sequence)
        return self.cut
