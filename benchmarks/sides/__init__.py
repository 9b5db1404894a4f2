"""The decoders that are compared. Each decodes greedily from the same token ids, on one thread."""

DECODE_PROMPT = 32
"""Tokens before the first timed step."""
DECODE_STEPS = 48
BATCH = 8
BATCH_STEPS = 16
PREFILL = 512


def prompt(count: int, number: int = 0) -> list[int]:
    """The same made-up token ids for every side; `number` tells the sequences of a batch apart."""
    return [(7919 * i + 104729 * number + 13) % 40000 + 100 for i in range(count)]
