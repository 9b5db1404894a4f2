"""What can be asked of a traced response, and how a wrong question is answered."""

from __future__ import annotations

import re
from typing import Any

import msgspec

MAX_TOP = 100
_EXPECTED = {
    "logit_bias": "must be a bias for each of some token ids",
    **dict.fromkeys(
        ("repetition_penalty", "presence_penalty", "frequency_penalty", "temperature", "top_p", "min_p"),
        "must be a number",
    ),
}


class QueryError(ValueError):
    """A field of a query is wrong; the message states the limit."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


class Query(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which slice to look at. Everything counts from 0; what is left out has the default of its view.

    A `step` stands for the position whose logits chose that step's token. The four tile bounds belong to the
    attention map; `from` is included, `to` is not. The fields from `logit_bias` on are the settings of a what-if.
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
    logit_bias: dict[int, float] | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    seed: int | None = None


def parse_query(fields: dict[str, Any]) -> Query:
    """A query from the strings of a URL or the numbers of a message. Raises QueryError naming the field."""
    try:
        return msgspec.convert(fields, Query, strict=False)
    except msgspec.ValidationError as error:
        named = re.search(r"`\$\.(\w+)|unknown field `(\w+)`", str(error))
        field = (named[1] or named[2]) if named else "query"
        if field not in Query.__struct_fields__:
            raise QueryError(field, f"is not one of {', '.join(Query.__struct_fields__)}") from error
        raise QueryError(field, _EXPECTED.get(field, "must be a whole number")) from error


def within(field: str, value: int, size: int, what: str) -> int:
    """The value if it is 0 to size - 1, else a QueryError that says so."""
    if not 0 <= value < size:
        raise QueryError(field, f"must be 0 to {size - 1} ({what}), not {value}")
    return value
