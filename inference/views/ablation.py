"""The next token's distribution with some heads, layers or feed-forward blocks off."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from inference.model.attention import softmax
from inference.model.decoder import CUT
from inference.query import Query, QueryError, within
from inference.views.derive import Projections, entropy, project_states, weigh
from inference.views.output import chosen_token, logits_at, rank_of
from inference.views.trace import WEIGHED_AT_ONCE, Trace
from inference.views.view import View, array

MAX_OFF = 64
"""Heads, layers or blocks that can be named at once."""
Keep = Callable[[int, Projections], tuple[Tensor, Tensor]]
"""(layer, new projections) -> keys and values of every position up to the last new one."""


@dataclass(frozen=True)
class Off:
    """What is switched off: it adds nothing to the residual stream (zero ablation)."""

    heads: dict[int, list[int]]
    """Heads by layer."""
    layers: frozenset[int]
    feed_forwards: frozenset[int]

    @property
    def first_layer(self) -> int:
        """The lowest layer that computes something else than before."""
        return min([*self.heads, *self.layers, *self.feed_forwards])


def ablation(trace: Trace, query: Query) -> View:
    """probabilities and logits [tokens] with the parts off, and before_probabilities and before_logits as they were:
    of the `top` best before and after, and of `token`.

    The parts are off at the position alone, which still reads the keys and values that the run wrote before it; with
    `everywhere` they are off at every position up to it, as if the whole text had been read without them.
    """
    position, count = trace.position(query), trace.top(query)
    off = _off(trace, query)
    before = logits_at(trace, position)
    run = _run_everywhere if query.everywhere else _run_here
    after = trace.decoder.logits(run(trace, position, off)[None])[0]
    token = chosen_token(trace, query, position, before)
    shares, shares_before = softmax(after), softmax(before)
    shown = {*before.topk(count).indices.tolist(), *after.topk(count).indices.tolist(), token}
    ids = torch.tensor(sorted(shown), device=after.device)
    ids = ids[after[ids].argsort(descending=True)]
    return trace.view(
        "ablation",
        {
            "logits": array(after[ids]),
            "probabilities": array(shares[ids]),
            "before_logits": array(before[ids]),
            "before_probabilities": array(shares_before[ids]),
        },
        position,
        token_ids=ids.tolist(),
        heads=[f"{layer}:{head}" for layer, heads in sorted(off.heads.items()) for head in heads],
        layers=sorted(off.layers),
        feed_forwards=sorted(off.feed_forwards),
        everywhere=query.everywhere,
        method="zero ablation: what is off adds nothing to the residual stream",
        token=token,
        token_probability=float(shares[token]),
        token_rank=rank_of(after, token),
        before_token_probability=float(shares_before[token]),
        before_token_rank=rank_of(before, token),
        entropy=float(entropy(shares)),
        before_entropy=float(entropy(shares_before)),
        divergence=float((shares_before * (before.log_softmax(-1) - after.log_softmax(-1))).sum()),
    )


def _run_here(trace: Trace, position: int, off: Off) -> Tensor:
    """The state [width] that leaves the last layer, the parts off at this position alone."""

    def keep(layer: int, made: Projections) -> tuple[Tensor, Tensor]:
        new_keys, new_values = made.k.transpose(0, 1), made.v.transpose(0, 1)
        if position == 0:
            return new_keys, new_values
        keys, values = trace.keys_and_values(layer, position)
        return torch.cat([keys, new_keys], dim=1), torch.cat([values, new_values], dim=1)

    states = trace.states(off.first_layer, position, position + 1)
    for layer in range(off.first_layer, trace.decoder.config.n_layers):
        states = _layer(trace, layer, states, position, off, keep)
        trace.pause()
    return states[0]


def _run_everywhere(trace: Trace, position: int, off: Off) -> Tensor:
    """The same, the parts off at every position up to it. Layer by layer, some positions at a time."""
    config = trace.decoder.config
    length = position + 1
    num_rows = max(1, min(CUT, WEIGHED_AT_ONCE // length))
    states = trace.states(off.first_layer, 0, length).clone()
    shape = (config.n_kv_heads, length, config.head_width)
    keys, values = (torch.empty(shape, device=states.device) for _ in range(2))
    for layer in range(off.first_layer, config.n_layers):
        for start in range(0, length, num_rows):
            stop = min(start + num_rows, length)

            def keep(_: int, made: Projections, start: int = start, stop: int = stop) -> tuple[Tensor, Tensor]:
                keys[:, start:stop], values[:, start:stop] = made.k.transpose(0, 1), made.v.transpose(0, 1)
                return keys[:, :stop], values[:, :stop]

            states[start:stop] = _layer(trace, layer, states[start:stop], start, off, keep)
            trace.pause()
    return states[-1]


def _layer(trace: Trace, layer: int, states: Tensor, start: int, off: Off, keep: Keep) -> Tensor:
    """States [positions, width] from position start on, through one layer without what is off."""
    if layer in off.layers:
        return states
    decoder = trace.decoder
    made = project_states(decoder, layer, states, start)
    mixed = weigh(decoder.config, layer, made.q, *keep(layer, made), start).mixed()
    by_head = mixed.view(len(states), decoder.config.n_heads, -1).clone()
    by_head[:, off.heads.get(layer, [])] = 0
    states = states + decoder.layers[layer].attention.update(by_head.view_as(mixed))
    trace.pause()
    if layer in off.feed_forwards:
        return states
    return states + decoder.layers[layer].feed_forward(states)


def _off(trace: Trace, query: Query) -> Off:
    config = trace.decoder.config

    def layer(field: str, text: str) -> int:
        if not re.fullmatch(r"\d{1,6}", text):
            raise QueryError(field, f"must be whole numbers, not {text[:20]!r}")
        return within(field, int(text), config.n_layers, "the model's layers")

    heads: dict[int, list[int]] = {}
    for text in _parts("heads", query.heads):
        pair = text.split(":")
        if len(pair) != 2 or not pair[1].isdecimal():
            raise QueryError("heads", f"must be pairs layer:head like 14:4, not {text[:20]!r}")
        head = within("heads", int(pair[1]), config.n_heads, "the model's heads")
        heads.setdefault(layer("heads", pair[0]), []).append(head)
    layers = frozenset(layer("layers", text) for text in _parts("layers", query.layers))
    blocks = frozenset(layer("feed_forwards", text) for text in _parts("feed_forwards", query.feed_forwards))
    if not (heads or layers or blocks):
        raise QueryError("heads", "name at least one head, layer (layers) or feed-forward block (feed_forwards)")
    return Off(heads, layers, blocks)


def _parts(field: str, value: str) -> list[str]:
    texts = [text.strip() for text in value.split(",")] if value else []
    if len(texts) > MAX_OFF:
        raise QueryError(field, f"at most {MAX_OFF} at once, not {len(texts)}")
    return texts
