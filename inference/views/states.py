"""Stages 8, 17 and 18: the vector of a token, the residual stream, and the feed-forward block."""

from __future__ import annotations

import torch

from inference.model.embedding import cosine
from inference.model.feed_forward import gated_activation
from inference.query import Query, within
from inference.views.derive import mixed_at
from inference.views.trace import Trace
from inference.views.view import View, array

TABLE_ROWS = 8192
"""Rows of the embedding table that are looked at between two pauses."""


def embeddings(trace: Trace, query: Query) -> View:
    """row [width] of the table for the token at the position (or `token`), and the nearest rows by cosine.

    The first state is the row times `multiplier`.
    """
    decoder, count = trace.decoder, trace.top(query)
    position = None if query.token is not None else trace.position(query)
    token = query.token if position is None else trace.token_ids[position]
    token = within("token", token if token is not None else 0, decoder.config.vocabulary, "the vocabulary")
    row = decoder.embedding[token]
    cosines = []
    for rows in torch.split(decoder.embedding, TABLE_ROWS):
        cosines.append(cosine(rows, row))
        trace.pause()
    near = torch.cat(cosines).topk(min(count + 1, decoder.config.vocabulary))
    others = near.indices != token
    return trace.view(
        "embeddings",
        {"row": array(row), "nearest_cosines": array(near.values[others][:count])},
        position,
        token=token,
        norm=float(row.norm()),
        multiplier=decoder.config.embedding_multiplier,
        nearest_ids=near.indices[others][:count].tolist(),
        table_shape=list(decoder.embedding.shape),
    )


def residual_norm(trace: Trace, query: Query) -> View:
    """norms [n_layers + 1] of the state entering every layer and (last entry) after the final norm.

    For the layer, each [width]: old + attention_update = middle; middle + feed_forward_update = new; and normed,
    the old state divided by its root mean square, times norm_weight. `recorded_difference` is the largest distance
    between `new` as derived and the state the run itself recorded.
    """
    layer, position = trace.layer(query), trace.position(query)
    decoder = trace.decoder
    stream = trace.stream(position)
    final = decoder.final_norm(stream[-1])
    block = decoder.layers[layer]
    old = stream[layer]
    attention_update = block.attention.update(mixed_at(trace, layer, position))[0].float()
    middle = old + attention_update
    feed_forward_update = block.feed_forward(middle[None])[0].float()
    new = middle + feed_forward_update
    vectors = {
        "old": old,
        "attention_update": attention_update,
        "middle": middle,
        "feed_forward_update": feed_forward_update,
        "new": new,
        "normed": block.attention.norm(old[None])[0],
        "norm_weight": block.attention.norm.weight,
    }
    norms = torch.cat([stream[:-1].norm(dim=-1), final.norm()[None]])
    return trace.view(
        "residual_norm",
        {"norms": array(norms)} | {name: array(vector) for name, vector in vectors.items()},
        position,
        layer=layer,
        vector_norms={name: float(vector.norm()) for name, vector in vectors.items()},
        root_mean_square=float(old.square().mean().sqrt()),
        epsilon=decoder.config.rms_epsilon,
        norm_before_final=float(stream[-1].norm()),
        recorded_difference=float((new - stream[layer + 1]).abs().max()),
    )


def feed_forward(trace: Trace, query: Query) -> View:
    """The `top` neurons of the layer by size of their activation: neurons, gate, up, activation [top].

    activation = silu(gate) * up, or with gelu_tanh in place of silu; `output` [width] is what the down projection
    (and a norm, in models that have one there) makes of all of them.
    """
    layer, position, count = trace.layer(query), trace.position(query), trace.top(query)
    block = trace.decoder.layers[layer].feed_forward
    config = trace.decoder.config
    update = trace.decoder.layers[layer].attention.update(mixed_at(trace, layer, position))
    middle = trace.states(layer, position, position + 1) + update
    gate, up = block.project(block.norm(middle))
    activation = gated_activation(gate, up, config.activation)
    output = block.update(activation)[0].float()
    neurons = activation[0].float().abs().topk(min(count, config.feed_forward_width)).indices
    return trace.view(
        "feed_forward",
        {
            "neurons": array(neurons),
            "gate": array(gate[0, neurons]),
            "up": array(up[0, neurons]),
            "activation": array(activation[0, neurons]),
            "output": array(output),
        },
        position,
        layer=layer,
        activation=config.activation,
        post_norm=config.post_norm,
        num_neurons=config.feed_forward_width,
        num_positive_gates=int((gate > 0).sum()),
        activation_norm=float(activation.float().norm()),
        output_norm=float(output.norm()),
        weight_shapes={
            "gate": [config.feed_forward_width, config.width],
            "up": [config.feed_forward_width, config.width],
            "down": [config.width, config.feed_forward_width],
        },
    )
