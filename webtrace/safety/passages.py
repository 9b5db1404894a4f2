"""What is judged: a text as a person reads it, cut into passages as long as those the heads learned from.

Judged in one piece, a threat in the middle of a long harmless letter would drown in the mean of its tokens.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Awaitable, Callable, Iterator
from typing import NamedTuple

JOINED_CHARACTERS = 160
"""Sentences are joined while a passage stays this short: about as long as the examples are."""
LONGEST_CHARACTERS = 320
"""A sentence longer than this is cut."""
TEXTS_A_CALL = 4
"""Passages scored by one request to the engine, which computes them between two of its steps."""

_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|\n+")


class Scored(NamedTuple):
    """A passage with the score of each label; no scores when no heads are loaded."""

    text: str
    scores: dict[str, float]


def plain(text: str) -> str:
    """The text without disguises: compatible forms unified (NFKC), format and control characters left out."""
    unified = unicodedata.normalize("NFKC", text)
    return "".join(character for character in unified if character in "\n\t\r" or not _is_invisible(character))


def passages(text: str) -> list[str]:
    """Consecutive passages of `plain(text)`, each of whole sentences where they fit; none of a blank text."""
    found: list[str] = []
    for sentence in _sentences(plain(text)):
        if found and len(found[-1]) + 1 + len(sentence) <= JOINED_CHARACTERS:
            found[-1] += " " + sentence
        else:
            found.append(sentence)
    return found


async def score_passages(text: str, judge: Callable[[list[str]], Awaitable[list[dict[str, float]]]]) -> list[Scored]:
    """Every passage of a text with its scores, asked of the engine (`judge`) a few at a time."""
    texts = passages(text)
    scored: list[Scored] = []
    for start in range(0, len(texts), TEXTS_A_CALL):
        part = texts[start : start + TEXTS_A_CALL]
        scored += map(Scored, part, await judge(part))
    return scored


def _is_invisible(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cf")


def _sentences(text: str) -> Iterator[str]:
    for sentence in _SENTENCE_END.split(text):
        yield from textwrap.wrap(sentence, LONGEST_CHARACTERS, expand_tabs=False)
