"""One token in two responses: the same row of the table to begin with, another state in every context."""

from __future__ import annotations

import torch
from torch import Tensor

from inference.query import Query, QueryError, within
from inference.views.trace import Trace
from inference.views.view import View, array


def contextual(trace: Trace, query: Query) -> View:
    """cosines, distances, norms and other_norms [n_layers + 1] of the states entering every layer and leaving the last.

    The other response's position is the last one that holds the same token, unless `other_position` names one.
    """
    position, other = trace.position(query), trace.other
    if other is None:
        raise QueryError("other", "must be the id of a response to compare with")
    token = trace.token_ids[position]
    other_position = _place(other, query.other_position, token)
    states, others = trace.stream(position), other.stream(other_position)
    norms, other_norms = states.norm(dim=-1), others.norm(dim=-1)
    return trace.view(
        "contextual",
        {
            "cosines": array(_cosines(states, others)),
            "distances": array((states - others).norm(dim=-1)),
            "norms": array(norms),
            "other_norms": array(other_norms),
        },
        position,
        token=token,
        other_position=other_position,
        other_num_positions=other.length,
        other_provenance=other.provenance,
    )


def _place(other: Trace, asked: int | None, token: int) -> int:
    if asked is None:
        places = [place for place in range(other.length) if other.token_ids[place] == token]
        if not places:
            raise QueryError("position", f"holds token {token}, which the other response does not")
        return places[-1]
    place = within("other_position", asked, other.length, "computed so far in the other response")
    if other.token_ids[place] != token:
        raise QueryError("other_position", f"holds token {other.token_ids[place]}; it must hold token {token} too")
    return place


def _cosines(one: Tensor, other: Tensor) -> Tensor:
    """Cosine of each pair of rows [n, width] -> [n]; in float64, for equal rows have exactly 1."""
    return torch.nn.functional.cosine_similarity(one.double(), other.double(), dim=-1).clamp(-1, 1)
