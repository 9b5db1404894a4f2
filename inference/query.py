"""What can be asked of a traced response, and how a wrong question is answered. No torch here: the service lists it."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

from inference.parameters import CHOICE

MAX_TOP = 100
_PLACE = ("position", "step")
_LAYER = ("layer", *_PLACE)
_HEAD = ("layer", "head", *_PLACE)
_NUMBERS = ("repetition_penalty", "presence_penalty", "frequency_penalty", "temperature", "top_p", "min_p")
_EXPECTED = {
    "logit_bias": "must be a bias for each of some token ids",
    "other": "must be the id of a response",
    "heads": "must be pairs layer:head with commas between them, like 14:4,3:0",
    "layers": "must be layers with commas between them, like 3,14",
    "feed_forwards": "must be layers with commas between them, like 3,14",
    "everywhere": "must be true or false",
    **dict.fromkeys(_NUMBERS, "must be a number"),
}


class QueryError(ValueError):
    """A field of a query is wrong; the message states the limit."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


class Asked(NamedTuple):
    """What a view takes and what it gives, in a line."""

    parameters: tuple[str, ...]
    shows: str


ASKED: dict[str, Asked] = {
    "tokens": Asked(("position_from", "position_to"), "prompt tokens with their kinds, and the merges behind them"),
    "message_tokens": Asked(("model",), "the user's message by itself, as another loaded model's tokenizer splits it"),
    "embeddings": Asked((*_PLACE, "token", "top"), "a token's row of the table and the nearest rows"),
    "positions": Asked(_HEAD, "rotary angles, and the pairs of q and k before and after they are turned"),
    "qkv": Asked(_HEAD, "q, k and v before rotation, and what they are projected from"),
    "scores": Asked((*_HEAD, "key"), "a query's dot products with all keys; with `key`, one opened into its products"),
    "scale": Asked(_HEAD, "the scores before and after the division by the root of the head width"),
    "mask": Asked(_HEAD, "which keys a query may look at, scores before and after"),
    "softmax": Asked(_HEAD, "one row of attention weights, its entropy and sink mass"),
    "attention": Asked(
        ("layer", "head", "query_from", "query_to", "key_from", "key_to"), "the map of a head, or a tile of it"
    ),
    "heads_grid": Asked(_LAYER, "entropy and sink mass of every head, thumbnails of the layer's maps"),
    "weighted_sum": Asked(_HEAD, "weights, values and the head's output"),
    "heads": Asked(_LAYER, "all heads' outputs joined and projected"),
    "residual_norm": Asked(_LAYER, "old state + updates = new state, and norms of all layers"),
    "feed_forward": Asked((*_LAYER, "top"), "the strongest neurons and the update they make"),
    "logits": Asked((*_PLACE, "token", "top"), "the highest and lowest logits, and one token's"),
    "lens": Asked((*_PLACE, "token", "top"), "the logit lens: what the state entering each layer would have said"),
    "attribution": Asked((*_PLACE, "token", "against"), "a logit as a sum over heads and feed-forward blocks"),
    "ablation": Asked(
        (*_PLACE, "heads", "layers", "feed_forwards", "everywhere", "token", "top"),
        "the distribution with some heads, layers or feed-forward blocks off",
    ),
    "probabilities": Asked((*_PLACE, "token", "top"), "the softmax over the whole vocabulary"),
    "what_if": Asked((*_PLACE, *CHOICE), "the token that other sampling settings would have chosen"),
    "kv_cache": Asked(
        (*_PLACE, "everywhere", "top"),
        "logits with the cache against the same from rows computed again; `everywhere`: from all tokens read again",
    ),
    "sentence": Asked((), "the user's message as the one vector by which retrieval would compare it"),
    "statements": Asked((), "how probable the model finds the last word of some statements, false and true"),
    "training": Asked((), "one step of training on a throw-away copy of the model: loss, gradients, loss after"),
    "contextual": Asked((*_PLACE, "other", "other_position"), "one token's states in two responses, layer by layer"),
}
"""Every view by slug, in the order of the stages."""
UNRECORDED = frozenset({"tokens", "message_tokens", "sentence", "statements", "training"})
"""Views that need nothing recorded: the worker makes them."""
TEXTS = frozenset({"heads", "layers", "feed_forwards", "other", "model"})
"""Fields that are text however much they look like a number."""


class Query(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which slice to look at. Everything counts from 0; what is left out has the default of its view.

    A `step` stands for the position whose logits chose that step's token. Of bounds, `from` is included, `to` is not.
    """

    layer: int = 0
    head: int = 0
    position: int | None = None
    step: int | None = None
    key: int | None = None
    token: int | None = None
    top: int = 10
    query_from: int | None = None
    query_to: int | None = None
    key_from: int | None = None
    key_to: int | None = None
    position_from: int | None = None
    position_to: int | None = None
    against: int | None = None
    heads: str = ""
    layers: str = ""
    feed_forwards: str = ""
    everywhere: bool = False
    other: str | None = None
    other_position: int | None = None
    model: str | None = None
    logit_bias: dict[int, float] | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    seed: int | None = None


def parse_query(slug: str, fields: dict[str, Any]) -> Query:
    """A query from the strings of a URL or the numbers of a message.

    Raises QueryError naming the field: an unknown view or field, one that the view does not use, a value of another
    kind, two fields that contradict each other.
    """
    if slug not in ASKED:
        raise QueryError("slug", f"must be one of {', '.join(ASKED)}, not {slug!r}")
    parameters = ASKED[slug].parameters
    for field in fields:
        if field not in parameters:
            raise QueryError(
                field, f"is not a parameter of the view {slug}, which takes {', '.join(parameters) or 'none'}"
            )
    for first, second in (("position", "step"), ("position", "token"), ("step", "token")):
        if first in fields and second in fields and (second == "step" or slug == "embeddings"):
            raise QueryError(second, f"cannot be given together with {first}")
    try:
        return msgspec.convert(fields, Query, strict=False)
    except msgspec.ValidationError as error:
        named = re.search(r"`\$\.(\w+)", str(error))
        field = named[1] if named else "query"
        raise QueryError(field, _EXPECTED.get(field, "must be a whole number")) from error


def within(field: str, value: int, size: int, what: str) -> int:
    """The value if it is 0 to size - 1, else a QueryError that says so."""
    if not 0 <= value < size:
        raise QueryError(field, f"must be 0 to {size - 1} ({what}), not {value}")
    return value
