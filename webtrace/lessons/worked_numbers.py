"""Worked numbers of the article, small enough to be checked by hand: the page computes each and compares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

Operation = Literal["lookup", "dot_product", "scale", "allowed_keys", "softmax", "weighted_sum", "cosine"]


class Figure(msgspec.Struct, frozen=True):
    """One result: what it is `of`, as printed within `tolerance`, and what stands there where the article rounds."""

    of: str
    printed: float
    tolerance: float
    simplified: float | None = None


class Section(msgspec.Struct, frozen=True):
    """One operation on `inputs`, which gives the `figures` in order; `stage` is where a request goes through it."""

    name: str
    stage: str
    title: str
    how: str
    operation: Operation
    inputs: dict[str, Any]
    figures: tuple[Figure, ...]


class WorkedNumbers(msgspec.Struct, frozen=True):
    source: str
    sections: tuple[Section, ...]


def _figures(
    of: Sequence[str], printed: Sequence[float], tolerance: float = 0, simplified: Sequence[float | None] | None = None
) -> tuple[Figure, ...]:
    rows = zip(of, printed, simplified or [None] * len(of), strict=True)
    return tuple(Figure(name, value, tolerance, simple) for name, value, simple in rows)


_SCORES = [0.2, -0.1, 0.05, 2.12, 0.7]
_SIMPLE = [0.08, 0.06, 0.07, 0.59, 0.2]
_VALUES = [[0.2, 0.1], [-0.1, 0.3], [0.0, 0.1], [0.8, 0.6], [0.5, -0.2]]
_TABLE = [
    [0.2, -0.1, 0.7, 0.4], [-0.5, 0.8, 0.1, 0.3], [0.6, 0.2, -0.4, 0.9],
    [0.1, 0.5, 0.6, -0.2], [-0.3, 0.7, 0.2, 0.5], [0.8, -0.4, 0.3, 0.1],
]  # fmt: skip
_COORDINATES = ("coordinate 0", "coordinate 1", "coordinate 2", "coordinate 3")

WORKED_NUMBERS = WorkedNumbers(
    source="The figures are those of the article “Inside an LLM: From Your Prompt to Its Reply”; its simplified "
    "figures stand beside what the operation gives.",
    sections=(
        Section(
            "lookup", "embeddings", "A row of the embedding table", "row 4 of 6",
            "lookup", {"table": _TABLE, "row": 4}, _figures(_COORDINATES, [-0.3, 0.7, 0.2, 0.5]),
        ),
        Section(
            "dot", "scores", "Dot products", "pairs of numbers multiplied, then added up",
            "dot_product", {"pairs": [[[1, 2], [1, 1]], [[1, 2], [-1, 0]], [[1, 2], [2, 3]]]},
            _figures(["[1, 2] · [1, 1]", "[1, 2] · [−1, 0]", "[1, 2] · [2, 3]"], [3, -1, 8]),
        ),
        Section(
            "scaled", "scale", "Scaled scores", "divided by √2",
            "scale", {"scores": [3, -1], "divisor_squared": 2}, _figures(["3", "−1"], [2.12, -0.71], 0.01),
        ),
        Section(
            "allowed", "mask", "Allowed keys of each query", "itself and every token before it",
            "allowed_keys", {"num_positions": 5},
            _figures(["Tell", " me", " a", " political", " joke"], [1, 2, 3, 4, 5]),
        ),
        Section(
            "weight", "softmax", "Attention weights",
            "exponentials of [0.2, −0.1, 0.05, 2.12, 0.7], divided by their sum", "softmax", {"scores": _SCORES},
            _figures(["0.2", "−0.1", "0.05", "2.12", "0.7"], [0.0903, 0.0669, 0.0777, 0.6161, 0.1489], 5e-5, _SIMPLE),
        ),
        Section(
            "mix", "weighted_sum", "Weighted sum, with the softmax’s weights",
            "weight times value, added up over the tokens", "weighted_sum", {"scores": _SCORES, "values": _VALUES},
            _figures(_COORDINATES[:2], [0.5787, 0.3768], 1e-4),
        ),
        Section(
            "simple-mix", "weighted_sum", "Weighted sum, with the simplified weights",
            "weights [0.08, 0.06, 0.07, 0.59, 0.2]", "weighted_sum", {"weights": _SIMPLE, "values": _VALUES},
            _figures(_COORDINATES[:2], [0.582, 0.347], 5e-4),
        ),
        Section(
            "probability", "probabilities", "Probabilities of the next token",
            "softmax of [8.2, 6.1, 4.8, 3.5, −1.2] over these 5 tokens; the simplified figures allow for others too",
            "softmax", {"scores": [8.2, 6.1, 4.8, 3.5, -1.2]},
            _figures(
                ["Why", "Here", "I", "Politics", "Banana"], [0.8584, 0.1051, 0.0286, 0.0078, 7.1e-5], 5e-5,
                [0.54, 0.18, 0.09, 0.05, None],
            ),
        ),
        Section(
            "cosine", "retrieval", "Cosine similarity", "8 / (√5 · √13)", "cosine", {"a": [1, 2], "b": [2, 3]},
            (Figure("dot product", 8, 0), Figure("[1, 2] and [2, 3]", 0.992, 5e-4)),
        ),
    ),
)  # fmt: skip
