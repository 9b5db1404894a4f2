"""A logit taken apart: what every head and feed-forward block wrote towards it."""

from __future__ import annotations

import torch
from torch import Tensor

from inference.checkpoint.config import ModelConfig
from inference.query import Query, within
from inference.views.derive import attend
from inference.views.output import chosen_token, logits_at
from inference.views.trace import Trace
from inference.views.view import View, array

FORMULA = "logit = sum of parts; part = s * sum over i of W[token, i] * g[i] * update[i]; s = 1 / rms(final state)"
SOURCE = "direct logit attribution, the final norm's scale frozen: Elhage et al. (2021); Wang et al. (2022)"


def attribution(trace: Trace, query: Query) -> View:
    """heads [n_layers, n_heads], feed_forwards [n_layers] and embedding [1]: each part's share of the token's logit;
    biases [n_layers] of the heads' output matrices, in models that have them.

    The state that leaves the last layer is a sum: the embedding plus what every head and feed-forward block added.
    The final norm divides it by one number s and multiplies by g, the vocabulary's row W[token] weighs it: with s held
    as it was, the logit is the sum of the same products of each part. `rounding` is what the kernels' roundings leave
    between that sum and the run's own logit. With `against` the difference of two logits is taken apart. Only direct
    writing counts: what a part made later layers do stands in their shares.
    """
    position = trace.position(query)
    decoder, stream = trace.decoder, trace.stream(position)
    logits = logits_at(trace, position)
    token = chosen_token(trace, query, position, logits)
    row, logit = decoder.vocabulary_row(token), float(logits[token])
    if query.against is not None:
        against = within("against", query.against, decoder.config.vocabulary, "the vocabulary")
        row, logit = row - decoder.vocabulary_row(against), logit - float(logits[against])
    scale = _scale(stream[-1], decoder.config)
    direction = row * decoder.final_norm.weight * scale
    parts_of_layers = []
    for layer in range(decoder.config.n_layers):
        parts_of_layers.append(_layer(trace, layer, position, direction))
        trace.pause()
    heads, biases, blocks = map(torch.stack, zip(*parts_of_layers, strict=True))
    tensors = {"heads": heads, "feed_forwards": blocks, "embedding": stream[:1] @ direction}
    if decoder.config.output_bias:
        tensors["biases"] = biases
    parts = torch.cat([tensor.flatten() for tensor in tensors.values()]).double()
    return trace.view(
        "attribution",
        {name: array(tensor) for name, tensor in tensors.items()},
        position,
        token=token,
        against_ids=[] if query.against is None else [query.against],
        logit=logit,
        sum=float(parts.sum()),
        sum_of_sizes=float(parts.abs().sum()),
        rounding=logit - float(parts.sum()),
        scale=scale,
        formula=FORMULA,
        source=SOURCE,
    )


def _layer(trace: Trace, layer: int, position: int, direction: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What the heads [n_heads], the output's bias [] and the feed-forward block [] wrote in the direction [width]."""
    config, block = trace.decoder.config, trace.decoder.layers[layer]
    mixed = attend(trace, layer, position, position + 1).mixed()
    # A row for each head with the others zero, and one of zeros, which leaves the bias: the output matrix is linear.
    alone = torch.zeros(config.n_heads + 1, config.n_heads, config.head_width, device=mixed.device)
    every = torch.arange(config.n_heads, device=mixed.device)
    alone[every, every] = mixed.view(config.n_heads, config.head_width)
    written = block.attention.output(alone.view(config.n_heads + 1, -1)).float()
    norm = block.attention.post_norm
    towards = direction
    if norm is not None:  # its scale is held as well
        towards = direction * norm.weight * _scale(block.attention.output(mixed)[0], config)
    bias = written[-1]
    middle = trace.states(layer, position, position + 1) + block.attention.update(mixed)
    update = block.feed_forward(middle)[0].float()
    return (written[:-1] - bias) @ towards, bias @ towards, update @ direction


def _scale(state: Tensor, config: ModelConfig) -> float:
    """What a norm multiplies the state [width] by, before its weight."""
    return float((state.double().square().mean() + config.rms_epsilon).rsqrt())
