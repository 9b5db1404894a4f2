"""The last word on a sequence: how it ended, what it took, what happened to it."""

from __future__ import annotations

from inference.cache import KVCache
from inference.checkpoint import ModelConfig
from inference.messages import Ended, EngineFinish
from inference.sequence import Sequence
from inference.traffic import decoding_multiply_adds


def ending(
    sequence: Sequence, finish: EngineFinish, error: str | None, now: float, config: ModelConfig, cache: KVCache
) -> Ended:
    """Its message at `now` (monotonic seconds), with the text held back for a stop string that did not come."""
    num_blocks = -(-sequence.num_computed // cache.block_size)
    prefilled = sequence.prefilled or now
    return Ended(
        response_id=sequence.response_id,
        finish=finish,
        text=sequence.answer.flush(),
        num_prompt_tokens=sequence.num_prompt_tokens,
        num_prefix_tokens=sequence.num_prefix_tokens,
        token_ids=sequence.answer.token_ids,
        stop=sequence.answer.stop,
        error=error,
        prefill_ms=1e3 * (prefilled - sequence.started) if sequence.started else 0.0,
        decode_ms=1e3 * (now - prefilled - sequence.held_s),
        num_blocks=num_blocks,
        num_bytes=num_blocks * cache.bytes_per_block,
        multiply_adds=decoding_multiply_adds(config, sequence.num_prompt_tokens, sequence.num_computed),
        forward_ms=1e3 * sequence.forward_s,
        bytes_read=sequence.bytes_read,
        events=sequence.events,
    )
