"""A response recomputed from its token ids, for what was evicted, and how far it agrees with what was recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from inference.cache import KVCache, ResidualPool
from inference.model.decoder import CUT, Chunk
from inference.views.trace import ROWS_AT_ONCE, Agreement, Trace, always

NUM_DECODED = 32
"""Decoded tokens that share a pass: each attends by itself, which is most of the work."""


@torch.inference_mode()
def rebuild(trace: Trace, logprobs: Sequence[float | None] = ()) -> Trace:
    """The same response recomputed in memory of its own, compared with the log-probabilities recorded for its steps.

    The prompt goes through the layers in the fixed cuts of a prefill, the answer as it was decoded, and so does what
    the prompt reused of earlier answers: every token attends for itself. Since no row of a product depends on its
    neighbours, many tokens can share a step, and the result is the run itself, bit by bit, on the CPU. Of the given
    trace only decoder, token ids, counts, `decoded_prefix` and `pause` are read.
    """
    decoder, size = trace.decoder, trace.cache.block_size
    num_blocks = -(-trace.length // size)
    cache = KVCache(decoder.config, num_blocks, size, device=decoder.device)
    residuals = ResidualPool(decoder.config, num_blocks, size, device=decoder.device)
    for chunks in _replay(trace, range(num_blocks)):
        for _ in decoder.piece_by_piece(chunks, cache, residuals):
            trace.pause()
    whole = replace(
        trace, cache=cache, residuals=residuals, blocks=range(num_blocks), provenance="rebuilt", is_intact=always
    )
    return replace(whole, agreement=_compare(whole, logprobs))


def _replay(trace: Trace, blocks: Sequence[int]) -> Iterator[list[Chunk]]:
    """The chunks of every pass: a cut of the prompt each, then decoded tokens."""

    def chunk(start: int, stop: int) -> Chunk:
        return Chunk(trace.token_ids[start:stop], start, blocks, wants_logits=False, record=True)

    read = 0
    for first, last in (*trace.decoded_prefix, (min(trace.num_prompt_tokens, trace.length), trace.length)):
        while read < first:
            end = min((read // CUT + 1) * CUT, first)
            yield [chunk(read, end)]
            read = end
        for start in range(first, last, NUM_DECODED):
            yield [chunk(at, at + 1) for at in range(start, min(start + NUM_DECODED, last))]
        read = last


def _compare(trace: Trace, logprobs: Sequence[float | None]) -> Agreement:
    """The raw log-probability of every step's token against the recorded one."""
    answer = trace.token_ids[trace.num_prompt_tokens :]
    recorded = [
        (step, token, logprob)
        for step, (token, logprob) in enumerate(zip(answer, logprobs, strict=False))
        if logprob is not None and trace.num_prompt_tokens + step <= trace.length
    ]
    largest = 0.0
    for begin in range(0, len(recorded), ROWS_AT_ONCE):
        steps, tokens, expected = zip(*recorded[begin : begin + ROWS_AT_ONCE], strict=True)
        states = torch.cat([_last_state(trace, step) for step in steps])
        found = trace.decoder.logits(states).log_softmax(-1)[range(len(steps)), list(tokens)]
        largest = max(largest, *(abs(a - b) for a, b in zip(found.tolist(), expected, strict=True)))
        trace.pause()
    return Agreement(len(recorded), largest if recorded else None)


def _last_state(trace: Trace, step: int) -> torch.Tensor:
    """The state [1, width] from which the step's token was chosen."""
    position = trace.num_prompt_tokens - 1 + step
    return trace.states(trace.decoder.config.n_layers, position, position + 1)
