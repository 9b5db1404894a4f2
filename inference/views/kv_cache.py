"""Stage 23: the cache put to the test, against its own inputs or against a run that has none."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from inference.model.decoder import CUT
from inference.model.embedding import embedding_lookup
from inference.query import Query
from inference.views.derive import keys_and_values_of, project_states, weigh
from inference.views.output import logits_at
from inference.views.rebuild import rebuild
from inference.views.trace import Trace
from inference.views.view import View, array

KeysAndValues = tuple[Tensor, Tensor]
"""Of consecutive positions in one layer, each [n_kv_heads, positions, head_width]."""


def kv_cache(trace: Trace, query: Query) -> View:
    """The logits as recorded against the same with no row of the cache read: cached_logits and uncached_logits [top]
    of the recorded best. `largest_difference` is over the whole vocabulary, `largest_row_difference` over all keys and
    values up to the position.

    Keys and values are computed again from the states recorded at the entry of every layer, and the position goes
    through the layers alone, from its embedding: what was kept is what its inputs give. With `everywhere` all tokens
    are read again in one go, as a prompt, and nothing of the run is used. Packed kernels of torch round activations to
    bfloat16, where a last-bit difference of the order of sums can grow.
    """
    position, count = trace.position(query), trace.top(query)
    cached = logits_at(trace, position)
    uncached, row_difference = (_read_again if query.everywhere else _from_inputs)(trace, position)
    top = cached.topk(count)
    return trace.view(
        "kv_cache",
        {"cached_logits": array(top.values), "uncached_logits": array(uncached[top.indices])},
        position,
        everywhere=query.everywhere,
        top_ids=top.indices.tolist(),
        largest_difference=float((cached - uncached).abs().max()),
        largest_row_difference=row_difference,
        same_top_token=int(cached.argmax()) == int(uncached.argmax()),
        kv_bytes_per_token=trace.cache.bytes_per_token,
        residual_bytes_per_token=trace.residuals.bytes_per_token,
        kv_bytes=trace.cache.bytes_per_token * trace.length,
    )


def _from_inputs(trace: Trace, position: int) -> tuple[Tensor, float]:
    """Logits [vocabulary] over keys and values computed again layer by layer, and how far the kept ones are off."""
    decoder, stop = trace.decoder, position + 1
    config = decoder.config
    token = torch.tensor([trace.token_ids[position]], device=decoder.device)
    state = embedding_lookup(decoder.embedding, token, config.embedding_multiplier)
    shape = (config.n_kv_heads, stop, config.head_width)
    keys, values = (torch.empty(shape, device=decoder.device) for _ in range(2))
    difference = 0.0
    for number, layer in enumerate(decoder.layers):
        for start in range(0, stop, CUT):
            end = min(start + CUT, stop)
            made = keys_and_values_of(decoder, number, trace.states(number, start, end), start)
            keys[:, start:end], values[:, start:end] = made
            trace.pause()
        difference = max(difference, _distance((keys, values), trace.keys_and_values(number, stop)))
        own = project_states(decoder, number, state, position)
        keys[:, position], values[:, position] = own.k[0], own.v[0]
        state = state + layer.attention.update(weigh(config, number, own.q, keys, values, position).mixed())
        state = state + layer.feed_forward(state)
        trace.pause()
    return decoder.logits(state)[0], difference


def _read_again(trace: Trace, position: int) -> tuple[Tensor, float]:
    """The same of a run without a cache: the tokens up to the position, read as a prompt."""
    stop = position + 1
    run = rebuild(replace(trace, num_prompt_tokens=stop, num_computed=stop, decoded_prefix=()))
    difference = 0.0
    for layer in range(trace.decoder.config.n_layers):
        difference = max(difference, _distance(run.keys_and_values(layer, stop), trace.keys_and_values(layer, stop)))
        trace.pause()
    return logits_at(run, position), difference


def _distance(one: KeysAndValues, other: KeysAndValues) -> float:
    """The largest difference of a number of the two."""
    return max(float((a - b).abs().max()) for a, b in zip(one, other, strict=True))
