"""The traced decoder, as the engine drives it."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

import torch

from benchmarks.sides import BATCH, BATCH_STEPS, DECODE_PROMPT, DECODE_STEPS, PREFILL, prompt
from inference.cache import KVCache, ResidualPool
from inference.checkpoint import load_checkpoint
from inference.model.decoder import CUT, Chunk, Decoder

BLOCK_SIZE = 64
_BLOCKS_EACH = PREFILL // BLOCK_SIZE


class TracedDecoder:
    """One decoder with memory for a batch, recording residual streams or not."""

    def __init__(self, model: Path, kernel: str = "auto") -> None:
        self.decoder = Decoder.load(load_checkpoint(model), device="cpu", kernel=kernel)
        torch.set_num_threads(1)
        self._cache = KVCache(self.decoder.config, BATCH * _BLOCKS_EACH, BLOCK_SIZE)
        self._residuals = ResidualPool(self.decoder.config, BATCH * _BLOCKS_EACH, BLOCK_SIZE)

    def decode(self, record: bool = True) -> float:
        """Tokens per second of one sequence."""
        return self._generate(1, DECODE_STEPS, record)

    def decode_batch(self) -> float:
        """Tokens per second of all sequences of a batch together, recording."""
        return self._generate(BATCH, BATCH_STEPS, record=True)

    def prefill(self) -> float:
        """Tokens per second of reading a prompt, recording."""
        started = perf_counter()
        self._read(prompt(PREFILL), 0, record=True)
        return PREFILL / (perf_counter() - started)

    def _read(self, token_ids: list[int], number: int, record: bool) -> int:
        """Computes a prompt cut by cut; the first token of its answer."""
        blocks = self._blocks(number)
        for start in range(0, len(token_ids), CUT):
            piece = token_ids[start : start + CUT]
            last = start + len(piece) == len(token_ids)
            logits = self._forward([Chunk(piece, start, blocks, wants_logits=last, record=record)])
        return int(logits[0].argmax())

    def _generate(self, num_sequences: int, steps: int, record: bool) -> float:
        tokens = [self._read(prompt(DECODE_PROMPT, n), n, record) for n in range(num_sequences)]
        started = perf_counter()
        for position in range(DECODE_PROMPT, DECODE_PROMPT + steps):
            chunks = [
                Chunk([token], position, self._blocks(number), wants_logits=True, record=record)
                for number, token in enumerate(tokens)
            ]
            tokens = self._forward(chunks).argmax(dim=1).tolist()
        return num_sequences * steps / (perf_counter() - started)

    def _forward(self, chunks: list[Chunk]) -> torch.Tensor:
        return self.decoder.forward(chunks, self._cache, self._residuals)

    @staticmethod
    def _blocks(number: int) -> range:
        return range(number * _BLOCKS_EACH, (number + 1) * _BLOCKS_EACH)
