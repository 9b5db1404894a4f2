"""Stages 19 and 20: logits, what the layers already knew of them, and probabilities."""

from __future__ import annotations

import torch
from torch import Tensor

from inference.model.attention import softmax
from inference.query import Query, within
from inference.views.derive import entropy
from inference.views.trace import ROWS_AT_ONCE, Trace
from inference.views.view import View, array


def logits_at(trace: Trace, position: int) -> Tensor:
    """Logits [vocabulary] of the token after the position, from the recorded state that left the last layer."""
    layers = trace.decoder.config.n_layers
    return trace.decoder.logits(trace.states(layers, position, position + 1))[0]


def chosen_token(trace: Trace, query: Query, position: int, row: Tensor) -> int:
    """The token asked about: `token`, else the one that followed, else the likeliest."""
    if query.token is not None:
        return within("token", query.token, trace.decoder.config.vocabulary, "the vocabulary")
    following = trace.next_token(position)
    return int(row.argmax()) if following is None else following


def rank_of(row: Tensor, token: int) -> int:
    """How many tokens score higher; 0 is the best."""
    return int((row > row[token]).sum())


def logits(trace: Trace, query: Query) -> View:
    """The best and worst of the whole vocabulary: top_logits and bottom_logits [top], their ids in `info`."""
    position, count = trace.position(query), trace.top(query)
    row = logits_at(trace, position)
    top, bottom = row.topk(count), row.topk(count, largest=False)
    token = chosen_token(trace, query, position, row)
    return trace.view(
        "logits",
        {"top_logits": array(top.values), "bottom_logits": array(bottom.values)},
        position,
        top_ids=top.indices.tolist(),
        bottom_ids=bottom.indices.tolist(),
        token=token,
        token_logit=float(row[token]),
        token_rank=rank_of(row, token),
        minimum=float(row.min()),
        maximum=float(row.max()),
        mean=float(row.mean()),
        std=float(row.std(correction=0)),
        vocabulary=len(row),
    )


def lens(trace: Trace, query: Query) -> View:
    """The final norm and output head applied to the state entering every layer and leaving the last.

    top_probabilities [n_layers + 1, top] with top_ids in `info`; probability and rank [n_layers + 1] of one token.
    """
    position, count = trace.position(query), trace.top(query)
    stream = trace.stream(position)
    token = chosen_token(trace, query, position, logits_at(trace, position))
    tops, probabilities_of_token, ranks = [], [], []
    for states in torch.split(stream, ROWS_AT_ONCE):
        trace.pause()
        rows = trace.decoder.logits(states)
        shares = softmax(rows)
        tops.append(shares.topk(count))
        probabilities_of_token.append(shares[:, token])
        ranks.append((rows > rows[:, token, None]).sum(-1))
    return trace.view(
        "lens",
        {
            "top_probabilities": array(torch.cat([top.values for top in tops])),
            "probability": array(torch.cat(probabilities_of_token)),
            "rank": array(torch.cat(ranks)),
        },
        position,
        token=token,
        top_ids=torch.cat([top.indices for top in tops]).tolist(),
    )


def probabilities(trace: Trace, query: Query) -> View:
    """Softmax over the whole vocabulary, before any sampling filter: top_probabilities and top_logits [top]."""
    position, count = trace.position(query), trace.top(query)
    row = logits_at(trace, position)
    shares = softmax(row)
    top = shares.topk(count)
    token = chosen_token(trace, query, position, row)
    largest = row.max()
    return trace.view(
        "probabilities",
        {"top_probabilities": array(top.values), "top_logits": array(row[top.indices])},
        position,
        top_ids=top.indices.tolist(),
        token=token,
        token_probability=float(shares[token]),
        token_rank=rank_of(row, token),
        entropy=float(entropy(shares)),
        others_mass=max(0.0, 1.0 - float(top.values.double().sum())),
        num_others=len(row) - count,
        largest_logit=float(largest),
        exponential_sum=float((row - largest).double().exp().sum()),
    )
