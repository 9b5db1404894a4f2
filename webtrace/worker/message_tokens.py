"""The view `message_tokens`: the user's message by itself, as the tokenizer of this worker's model splits it."""

from __future__ import annotations

import json
from uuid import UUID

import numpy as np
import safetensors.numpy

from inference.text import Tokenizer
from webtrace.worker.user_message import user_message

MAX_PIECES = 1024


async def message_tokens(response_id: UUID, tokenizer: Tokenizer) -> bytes:
    """ids [pieces] of the first 1,024 of `num_tokens`; in the structured part the pieces {id, text, kind}, the size
    of the `vocabulary`, and in `left_out` the characters that it has no tokens for.

    Raises QueryError where no message is stored.
    """
    text = await user_message(response_id)
    ids = tokenizer.encode(text)
    shown = ids[:MAX_PIECES]
    info = {
        "slug": "message_tokens",
        "shapes": {"ids": [len(shown)]},
        "num_characters": len(text),
        "num_tokens": len(ids),
        "vocabulary": len(tokenizer),
        "left_out": "".join(sorted(tokenizer.unsayable(text))),
        "pieces": [{"id": one.id, "text": one.text, "kind": one.kind} for one in tokenizer.describe(shown)],
    }
    packed: bytes = safetensors.numpy.save(
        {"ids": np.array(shown, dtype=np.int32)}, {"view": json.dumps(info, ensure_ascii=False)}
    )
    return packed
