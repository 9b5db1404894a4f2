"""Stage 21 asked again: the token that other settings would have chosen at a step, by the sampler itself."""

from __future__ import annotations

import msgspec
import torch

from inference.messages import Sampling
from inference.parameters import CHOICE, validate
from inference.query import Query, QueryError
from inference.sampling import sample
from inference.views.output import logits_at
from inference.views.trace import Trace
from inference.views.view import View, array


def what_if(trace: Trace, query: Query) -> View:
    """One step's logits through `sample` with the query's settings: with the response's own, the step itself.

    logits, raw_probabilities and probabilities [candidates], their ids in `info` with the ledger, the token chosen,
    and what a step tells of it. Only this step changes: the tokens before it are the response's own.
    """
    position = trace.position(query)
    step = position - trace.num_prompt_tokens + 1
    if step < 0:
        limit = trace.num_prompt_tokens - 1
        raise QueryError("position", f"must be at least {limit}, where the first token was chosen, not {position}")
    settings = _settings(query, trace.decoder.config.vocabulary)
    logits = logits_at(trace, position).cpu()
    sampled = sample(logits, trace.token_ids[: position + 1], settings, step)
    ids, *columns = zip(*sampled.candidates, strict=True)
    names = ("logits", "raw_probabilities", "probabilities")
    return trace.view(
        "what_if",
        {name: array(torch.tensor(column)) for name, column in zip(names, columns, strict=True)},
        position,
        settings={name: getattr(settings, name) for name in CHOICE},
        candidate_ids=list(ids),
        token=sampled.token,
        ledger=msgspec.to_builtins(sampled.ledger, str_keys=True),
        raw_logprob=sampled.raw_logprob,
        logprob=sampled.logprob,
        rank=sampled.rank,
        entropy=sampled.entropy,
    )


def _settings(query: Query, vocabulary: int) -> Sampling:
    """What is left out has its usual value, and the seed 0. Raises QueryError."""
    given = {name: value for name in CHOICE if (value := getattr(query, name)) is not None}
    settings = Sampling(**{"seed": 0} | given)
    for field, message in validate(settings, vocabulary):
        raise QueryError(field, message)
    return settings
