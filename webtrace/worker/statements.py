"""The view `statements`: how probable the served model finds the last word of some statements, false and true."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
import safetensors.numpy

from inference.messages import Subject
from inference.text import Tokenizer
from webtrace.running.engine import Engine
from webtrace.worker.token_texts import info_of, with_token_texts


class Statement(NamedTuple):
    """A beginning with an ending that makes it false, and one that makes it true."""

    beginning: str
    false: str
    true: str | None = None


STATEMENTS = (
    Statement("The capital of Australia is", " Sydney", " Canberra"),
    Statement("The capital of Turkey is", " Istanbul", " Ankara"),
    Statement("The capital of Brazil is", " Rio", " Brasília"),
    Statement("Lightning never strikes the same place", " twice"),
)


async def statements(engine: Engine, tokenizer: Tokenizer) -> bytes:
    """false, true [statements]: probability of the first token of either ending; NaN where no true one is known.

    The beginnings are read as they stand, by the running engine, without a chat template. Raises EngineLost,
    EngineFailed.
    """
    rows, shares = [], []
    for statement in STATEMENTS:
        false = await _ending(statement.beginning, statement.false, engine, tokenizer)
        true = await _ending(statement.beginning, statement.true, engine, tokenizer) if statement.true else None
        shares.append((false["share"], true["share"] if true else np.nan))
        rows.append({"beginning": statement.beginning, "false": false, "true": true})
    tensors = dict(zip(("false", "true"), np.array(shares, np.float32).T.copy(), strict=True))
    info = {"slug": "statements", "shapes": {name: [len(rows)] for name in tensors}, "statements": rows}
    return with_token_texts(safetensors.numpy.save(tensors, {"view": json.dumps(info)}), tokenizer)


async def _ending(beginning: str, ending: str, engine: Engine, tokenizer: Tokenizer) -> dict[str, Any]:
    """The ending's first token after the beginning: its share of all probability, and how many tokens have more."""
    read = tokenizer.encode_raw(beginning)
    token = tokenizer.encode_raw(beginning + ending)[len(read)]
    subject = Subject("", engine.require().fingerprint, [*read, token], num_prompt_tokens=len(read))
    body = await engine.view("probabilities", {"position": len(read) - 1, "token": token, "top": 1}, subject, None)
    info = info_of(body)
    return {"ending": ending, "token": token, "share": info["token_probability"], "rank": info["token_rank"]}
