"""The parts of a tokenizer.json that are read here; the `tokenizers` library reads the rest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

Component = dict[str, Any]
"""One normalizer, pre-tokenizer or decoder: its `type` and what that type needs."""


class Model(msgspec.Struct):
    """How a stretch of text becomes tokens: by merges, or (Unigram, whose vocabulary has scores) by the likeliest
    split."""

    vocab: dict[str, int] | list[tuple[str, float]]
    type: str = "BPE"
    merges: list[tuple[str, str] | str] = []
    """As pairs, or in older files as two words of a line."""
    byte_fallback: bool = False

    @property
    def ids(self) -> dict[str, int]:
        if isinstance(self.vocab, dict):
            return self.vocab
        return {token: index for index, (token, _) in enumerate(self.vocab)}

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The merge table: a pair's place is its rank."""
        split = (merge.split(" ") if isinstance(merge, str) else merge for merge in self.merges)
        return [(left, right) for left, right in split]


class AddedToken(msgspec.Struct):
    id: int
    content: str


class Definition(msgspec.Struct):
    model: Model
    added_tokens: list[AddedToken] = []
    normalizer: Component | None = None
    pre_tokenizer: Component | None = None
    decoder: Component | None = None

    @property
    def is_byte_level(self) -> bool:
        return any(part["type"] == "ByteLevel" for part in components(self.pre_tokenizer))


def components(part: Component | None) -> Iterator[Component]:
    """The part itself, or what a sequence is made of, in order."""
    if part is None:
        return
    inner = next((part[key] for key in ("normalizers", "pretokenizers", "decoders") if key in part), None)
    if inner is None:
        yield part
    for one in inner or ():
        yield from components(one)
