"""A sequence run through a decoder by hand, for tests that look inside."""

from collections.abc import Sequence

from torch import Tensor

from inference.cache import KVCache, ResidualPool
from inference.model.attention import Capture
from inference.model.decoder import CUT, Chunk, Decoder


class Sequencer:
    """Runs one sequence in blocks of its own choosing, cut as the engine cuts it."""

    def __init__(self, decoder: Decoder, cache: KVCache, residuals: ResidualPool, blocks: Sequence[int]) -> None:
        self.decoder, self.cache, self.residuals, self.blocks = decoder, cache, residuals, list(blocks)
        self.token_ids: list[int] = []

    def chunk(self, token_ids: Sequence[int]) -> Chunk:
        """The next tokens as one chunk."""
        chunk = Chunk(token_ids, len(self.token_ids), self.blocks, wants_logits=True, record=True)
        self.token_ids += token_ids
        return chunk

    def feed(self, token_ids: Sequence[int], capture: Capture | None = None) -> Tensor:
        """Computes the tokens and returns the logits [vocabulary] of the last."""
        logits = None
        for begin in range(0, len(token_ids), CUT):
            chunk = self.chunk(list(token_ids[begin : begin + CUT]))
            logits = self.decoder.forward([chunk], self.cache, self.residuals, capture=capture)
        assert logits is not None
        return logits[0]

    def greedy(self, logits: Tensor, steps: int, end: int | None = None) -> list[int]:
        """The likeliest tokens, one after another."""
        answer: list[int] = []
        while True:
            answer.append(int(logits.argmax()))
            if len(answer) == steps or answer[-1] == end:
                return answer
            logits = self.feed(answer[-1:])


def new_sequence(decoder: Decoder, blocks: Sequence[int] | None = None, num_blocks: int = 12) -> Sequencer:
    """A sequence alone in a cache of its own."""
    cache = KVCache(decoder.config, num_blocks, device=decoder.device)
    residuals = ResidualPool(decoder.config, num_blocks, device=decoder.device)
    return Sequencer(decoder, cache, residuals, range(num_blocks) if blocks is None else blocks)
