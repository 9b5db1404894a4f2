"""Two things that are taken for one another, row by row."""

from __future__ import annotations

import msgspec


class Contrast(msgspec.Struct, frozen=True):
    """A row names a property and says what it is on either side."""

    caption: str
    sides: tuple[str, str]
    rows: tuple[tuple[str, str, str], ...]


CONTRASTS: dict[str, Contrast] = {
    "attention-retrieval": Contrast(
        "Attention is not retrieval",
        ("attention", "retrieval"),
        (
            ("compares", "one position with all before it", "one text with all stored texts"),
            ("by", "dot product of query and key, scaled", "cosine of two vectors"),
            ("made by", "matrices of this model, in each layer and head", "a second, smaller model"),
            ("how often", "in every layer, for every token", "once a request, before the model runs"),
            ("gives", "a mixture of vectors", "pieces of text, put into the prompt"),
            ("can be looked up", "no: it is computed and gone", "yes: the vectors are stored"),
        ),
    ),
    "training-inference": Contrast(
        "Training is not inference",
        ("training", "inference"),
        (
            ("weights", "are changed, a little at each step", "are only read"),
            ("goes through the layers", "forwards, and backwards for the gradients", "forwards alone"),
            ("text", "is known: the next token is the answer to learn", "grows by what the model itself chose"),
            ("computed", "all positions at once, for many texts", "one position a step, for one text"),
            ("memory", "weights, gradients, the optimiser's state", "weights and the KV cache"),
            ("happens", "once, for months, before anybody asks", "at every request"),
        ),
    ),
}
