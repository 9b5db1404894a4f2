"""Byte-level BPE: every byte is spelled as one printable character, and text is cut into words before merging."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import tokenizers

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True}
_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_CASED_WORDS = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
)
_PUNCTUATION = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"


def _split(*alternatives: str) -> dict[str, Any]:
    """Cuts where one of these patterns begins or ends; bytes become characters only after that."""
    cut = {"type": "Split", "pattern": {"Regex": "|".join(alternatives)}, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [cut, BYTE_LEVEL | {"use_regex": False}]}


_LLAMA3 = _split(_CONTRACTIONS, _WORDS, r"\p{N}{1,3}", _PUNCTUATION, _SPACES)
# How text is cut before merging, by the name GGUF gives it.
PRE_TOKENIZERS: dict[str, dict[str, Any]] = {
    "smollm": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, BYTE_LEVEL]},
    "gpt-2": BYTE_LEVEL,
    "qwen2": _split(_CONTRACTIONS, _WORDS, r"\p{N}", _PUNCTUATION, _SPACES),
    "llama-bpe": _LLAMA3,
    "smaug-bpe": _LLAMA3,
    "tekken": _split(_CASED_WORDS, r"\p{N}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", _SPACES),
}
WHOLE_FIRST = ("llama-bpe", "tekken")
"""Where a stretch of text that is a token by itself becomes that token, whatever merges would make of it."""


def _byte_characters() -> Sequence[str]:
    printable = {*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    substitutes = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(substitutes)) for byte in range(256)]


BYTE_CHARACTERS = _byte_characters()
"""A byte's character: itself, or one from U+0100 on."""
_CHARACTER_BYTES = {character: byte for byte, character in enumerate(BYTE_CHARACTERS)}


class ByteLevelSpelling:
    """See Spelling in tokenizer.py."""

    def __init__(self, backend: tokenizers.Tokenizer, entries: Collection[str]) -> None:
        self._backend = backend
        self._missing = {byte for byte, character in enumerate(BYTE_CHARACTERS) if character not in entries}

    def bytes_of(self, entry: str) -> bytes:
        return bytes(_CHARACTER_BYTES[character] for character in entry)

    def bytes_of_added(self, content: str) -> bytes:
        return content.encode()

    def unsayable(self, text: str) -> set[str]:
        if self._missing.isdisjoint(text.encode()):
            return set()
        return {c for c in set(text) if not self._missing.isdisjoint(c.encode())}

    def stretches(self, text: str) -> list[str]:
        return [self.bytes_of(one).decode() for one, _ in self._backend.pre_tokenizer.pre_tokenize_str(text)]

    def symbols(self, stretch: str) -> list[str]:
        return [BYTE_CHARACTERS[byte] for byte in stretch.encode()]
