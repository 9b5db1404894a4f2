"""Tokenizers in SentencePiece's way: a space is written `▁`, and a character without a token becomes its bytes.

How a text begins is part of it. Many vocabularies know a word best with the space before it, so their tokenizers put
one before the first word too, some after every control token, and take it away again when they turn tokens to text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Any, Literal

import tokenizers

from inference.text.definition import Component, Definition, components

MARK = "▁"
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
_PLAIN_DECODERS = ("ByteFallback", "Fuse")

Prefixed = Literal["never", "first", "always"]
"""Where a space is put before a text: nowhere, where the prompt begins, or there and after each control token."""


class SentencePieceSpelling:
    """See Spelling in tokenizer.py."""

    def __init__(self, backend: tokenizers.Tokenizer, entries: Collection[str], definition: Definition) -> None:
        """`backend` puts no space before a text."""
        self._backend = backend
        self._entries = entries
        self._has_bytes = definition.model.byte_fallback and all(byte in entries for byte in _BYTES)
        self._falls_back = definition.model.byte_fallback
        self._added = {token.content for token in definition.added_tokens}

    def bytes_of(self, entry: str) -> bytes:
        if self._falls_back and (byte := _BYTE.fullmatch(entry)):
            return bytes([int(byte[1], 16)])
        return entry.replace(MARK, " ").encode()

    def bytes_of_added(self, content: str) -> bytes:
        return content.replace(MARK, " ").encode()

    def unsayable(self, text: str) -> set[str]:
        if self._has_bytes:
            return set()
        return {character for character in set(text) if not self._is_sayable(character)}

    def _is_sayable(self, character: str) -> bool:
        return all(one in self._entries or self._in_bytes(one) for one in self._normalised(character))

    def _in_bytes(self, character: str) -> bool:
        return self._falls_back and all(_BYTES[byte] in self._entries for byte in character.encode())

    def stretches(self, text: str) -> list[str]:
        found: list[str] = []
        for part in self._added_pattern.split(text):
            if part in self._added:
                found.append(part)
            elif part:
                cut = self._backend.pre_tokenizer
                normalised = self._normalised(part)
                pieces = [normalised] if cut is None else [piece for piece, _ in cut.pre_tokenize_str(normalised)]
                found += [word.replace(MARK, " ") for piece in pieces for word in self._unbonded(piece)]
        return found

    def symbols(self, stretch: str) -> list[str]:
        if stretch in self._added:
            return [stretch]
        symbols: list[str] = []
        for character in stretch.replace(" ", MARK):
            symbols += [character] if character in self._entries else [_BYTES[byte] for byte in character.encode()]
        return symbols

    def _normalised(self, text: str) -> str:
        normalizer = self._backend.normalizer
        normal: str = text if normalizer is None else normalizer.normalize_str(text)
        return normal.replace(" ", MARK)

    def _unbonded(self, text: str) -> list[str]:
        """Cuts between two characters that stand side by side in no token: no merge can cross there."""
        cuts = [place for place in range(1, len(text)) if text[place - 1 : place + 1] not in self._bonds]
        return [text[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True) if begin < end]

    @cached_property
    def _bonds(self) -> set[str]:
        return {entry[place : place + 2] for entry in self._entries for place in range(len(entry) - 1)}

    @cached_property
    def _added_pattern(self) -> re.Pattern[str]:
        longest_first = sorted(self._added, key=len, reverse=True)
        return re.compile(f"({'|'.join(map(re.escape, longest_first))})" if self._added else r"(?!)()")


def prefixed(definition: Definition) -> Prefixed:
    """Where this tokenizer puts a space before a text."""
    if any(part["type"] == "Prepend" for part in components(definition.normalizer)):
        return "always"
    schemes: set[Prefixed] = {_scheme(part) for part in components(definition.pre_tokenizer) if _is_metaspace(part)}
    return next((scheme for scheme in ("always", "first") if scheme in schemes), "never")


def without_prefix(definition: str) -> str:
    """The content of the same tokenizer.json, but for the space before a text."""
    content = json.loads(definition)
    content["normalizer"] = _without_prepend(content.get("normalizer"))
    for part in components(content.get("pre_tokenizer")):
        if _is_metaspace(part):
            part["prepend_scheme"] = "never"
            part.pop("add_prefix_space", None)
    return json.dumps(content)


def drops_first_space(definition: Definition) -> bool:
    """Whether one space is taken from the beginning of what tokens say."""
    parts = list(components(definition.decoder))
    strips = any(part["type"] == "Strip" and part["start"] for part in parts)
    return strips or any(_is_metaspace(part) and _scheme(part) != "never" for part in parts)


def unsupported(definition: dict[str, Any]) -> str | None:
    """What of a tokenizer.json in this way could not be followed faithfully, by name."""
    for part in components(definition.get("decoder")):
        kind = part["type"]
        known = (
            kind in _PLAIN_DECODERS
            or (kind == "Replace" and (part["pattern"].get("String"), part["content"]) == (MARK, " "))
            or (kind == "Strip" and part["content"] == " " and part["start"] <= 1 and not part["stop"])
            or (_is_metaspace(part) and part["replacement"] == MARK)
        )
        if not known:
            return f"decoder {kind!r}"
    marks = {part["replacement"] for part in components(definition.get("pre_tokenizer")) if _is_metaspace(part)}
    for part in components(definition.get("normalizer")):
        if part["type"] == "Prepend":
            marks.add(part["prepend"])
        elif part["type"] == "Replace" and part["pattern"].get("String") == " ":
            marks.add(part["content"])
    if marks != {MARK}:
        return f"spaces written as {sorted(marks)}" if marks else "spaces without a mark"
    return None


def merges_by_score(scores: dict[str, float]) -> list[tuple[str, str]]:
    """The merge table of a vocabulary that has scores instead: whatever two entries spell a third may be merged, the
    best third first. `scores` are of entries that merging may make or use.

    Two ways to the same entry are equal in such a vocabulary, and the leftmost is taken; in a table one comes first.
    The longer left part does, since runs of one letter are merged from the left.
    """
    ordered = sorted(scores, key=lambda entry: -scores[entry])
    return [
        (entry[:place], entry[place:])
        for entry in ordered
        for place in range(len(entry) - 1, 0, -1)
        if entry[:place] in scores and entry[place:] in scores
    ]


def definition_from_scores(
    tokens: Sequence[str], scores: dict[str, float], added: dict[str, int], *, prefix: bool
) -> dict[str, Any]:
    """The content of a tokenizer.json for a vocabulary as GGUF keeps it.

    `scores` are of the tokens that merging makes; `added` are those found in a text before anything else.
    """
    mark = {"type": "Replace", "pattern": {"String": " "}, "content": MARK}
    decoders: list[Component] = [
        {"type": "Replace", "pattern": {"String": MARK}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
    ]
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    return {
        "version": "1.0",
        "added_tokens": [{"id": index, "content": token, **flags} for token, index in added.items()],
        "normalizer": {
            "type": "Sequence",
            "normalizers": [*[{"type": "Prepend", "prepend": MARK}] * prefix, mark],
        },
        "pre_tokenizer": None,
        "decoder": {
            "type": "Sequence",
            "decoders": decoders + [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] * prefix,
        },
        "model": {
            "type": "BPE",
            "byte_fallback": True,
            "vocab": {token: index for index, token in enumerate(tokens)},
            "merges": merges_by_score(scores),
        },
    }


def _is_metaspace(part: Component) -> bool:
    return bool(part["type"] == "Metaspace")


def _scheme(metaspace: Component) -> Prefixed:
    """Older files say yes or no."""
    older: Prefixed = "always" if metaspace.get("add_prefix_space", True) else "never"
    scheme: Prefixed = metaspace.get("prepend_scheme", older)
    return scheme


def _without_prepend(normalizer: Component | None) -> Component | None:
    if normalizer is None or normalizer["type"] == "Prepend":
        return None
    if "normalizers" not in normalizer:
        return normalizer
    kept = [_without_prepend(one) for one in normalizer["normalizers"]]
    return normalizer | {"normalizers": [one for one in kept if one is not None]}
