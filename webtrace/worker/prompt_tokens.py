"""The view `tokens`: pieces of the prompt by position, and the merges that led to them. It needs no tensors."""

from __future__ import annotations

import json

import numpy as np
import safetensors.numpy

from inference.messages import Subject
from inference.query import Query, QueryError
from inference.text import Tokenizer

MAX_PIECES = 1024
MAX_MERGES = 400


def prompt_tokens(subject: Subject, asked: Query, tokenizer: Tokenizer) -> bytes:
    """ids [pieces] of the positions from position_from to position_to - 1; in the structured part the pieces
    {position, id, text, kind} and the merges [left, right, merged] of their words, the first 400 of `num_merges`.

    Without bounds the first 1,024 positions. Raises QueryError.
    """
    start, stop = _bounds(subject.num_prompt_tokens, asked.position_from, asked.position_to)
    ids = subject.token_ids[: subject.num_prompt_tokens]
    # One piece more in front: whether letters begin a word depends on what stands before.
    before = max(start - 1, 0)
    pieces = tokenizer.describe(ids[before:stop])[start - before :]
    words = tokenizer.words(ids, start, stop)
    merges = [(one.left, one.right, one.merged) for word in words for one in tokenizer.merges(word)]
    info = {
        "slug": "tokens",
        "shapes": {"ids": [stop - start]},
        "position_from": start,
        "position_to": stop,
        "num_prompt_tokens": subject.num_prompt_tokens,
        "pieces": [
            {"position": start + place, "id": piece.id, "text": piece.text, "kind": piece.kind}
            for place, piece in enumerate(pieces)
        ],
        "merges": merges[:MAX_MERGES],
        "num_merges": len(merges),
    }
    packed: bytes = safetensors.numpy.save(
        {"ids": np.array(ids[start:stop], dtype=np.int32)}, {"view": json.dumps(info, ensure_ascii=False)}
    )
    return packed


def _bounds(length: int, start: int | None, stop: int | None) -> tuple[int, int]:
    first = 0 if start is None else start
    if not 0 <= first < length:
        raise QueryError("position_from", f"must be 0 to {length - 1} (the prompt), not {first}")
    last = min(length, first + MAX_PIECES) if stop is None else stop
    if not first < last <= length:
        raise QueryError("position_to", f"must be {first + 1} to {length} (the prompt), not {last}")
    if last - first > MAX_PIECES:
        raise QueryError("position_to", f"at most {MAX_PIECES} positions at once, not {last - first}")
    return first, last
