"""Byte-level BPE: text to token ids and back, and everything a page wants to know about a token."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from pathlib import Path
from typing import Literal

import msgspec
import tokenizers

from inference.text.vocabulary import Vocabulary

Kind = Literal["word start", "inside a word", "digit", "punctuation", "whitespace", "byte piece", "control"]


class InvalidText(ValueError):
    """The text is not valid Unicode (a lone surrogate)."""


@dataclass(frozen=True)
class Piece:
    """One token of a text, ready to be shown."""

    id: int
    text: str
    kind: Kind


@dataclass(frozen=True)
class Merge:
    """One merge of byte-pair encoding. `rank` is its line in the merge table: lower ranks merge first."""

    left: str
    right: str
    merged: str
    rank: int


class _Model(msgspec.Struct):
    vocab: dict[str, int]
    merges: list[tuple[str, str] | str]
    """As pairs, or in older files as two words of a line."""


class _AddedToken(msgspec.Struct):
    id: int
    content: str


class _Definition(msgspec.Struct):
    """The parts of a tokenizer.json that are read here; the library reads the rest."""

    model: _Model
    added_tokens: list[_AddedToken] = []


class Tokenizer:
    """Turns text into ids without ever making a control token out of it."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._backend = tokenizers.Tokenizer.from_str(vocabulary.definition)
        definition = msgspec.json.decode(vocabulary.definition, type=_Definition)
        pairs = (merge.split(" ") if isinstance(merge, str) else merge for merge in definition.model.merges)
        self._merges = [(left, right) for left, right in pairs]
        self._control = vocabulary.control_ids
        self._control_texts = {index: text for text, index in self._control.items()}
        self._added_texts = {token.id: token.content for token in definition.added_tokens}
        ids = definition.model.vocab
        self._tokens = [""] * (1 + max([*ids.values(), *self._control_texts, *self._added_texts]))
        for token, index in ids.items():
            self._tokens[index] = token
        self._unsayable = {byte for byte, character in enumerate(BYTE_CHARACTERS) if character not in ids}
        self.end_ids = vocabulary.end_ids
        self.start_id = vocabulary.start_id
        self._before_raw = [] if vocabulary.start_id is None or not vocabulary.starts_raw else [vocabulary.start_id]
        self.chat_template = vocabulary.chat_template

    @classmethod
    def load(cls, path: Path, cache_folder: Path | None = None) -> Tokenizer:
        """From a GGUF file or a folder with tokenizer.json; `cache_folder` makes later loads of GGUF fast."""
        return cls(Vocabulary.load(path, cache_folder))

    def __len__(self) -> int:
        """Ids in the vocabulary, control tokens included."""
        return len(self._tokens)

    def encode(self, text: str) -> list[int]:
        """Ids of plain text: `<|im_end|>` typed by a person becomes the tokens of its characters.

        Characters that the vocabulary has no bytes for (see `unsayable`) are left out whole.
        Raises InvalidText.
        """
        return [token for token, _ in self.encode_with_starts(text)]

    def encode_with_starts(self, text: str) -> list[tuple[int, int]]:
        """(id, index in `text` of the character the token begins in). Raises InvalidText."""
        dropped = self.unsayable(text)
        kept = text.translate(dict.fromkeys(map(ord, dropped))) if dropped else text
        encoding = self._backend.encode(kept, add_special_tokens=False)
        starts = [start for start, _ in encoding.offsets]
        if dropped:
            places = [index for index, character in enumerate(text) if character not in dropped]
            starts = [places[start] for start in starts]
        return list(zip(encoding.ids, starts, strict=True))

    def encode_raw(self, text: str) -> list[int]:
        """Ids of a raw prompt, whose author owns all of it: control tokens count as such.

        The start token is put in front where the checkpoint asks for it, and never doubled.
        """
        ids: list[int] = []
        for part in self.split_control(text):
            ids += [self._control[part]] if part in self._control else self.encode(part)
        return ids if ids[:1] == [self.start_id] else self._before_raw + ids

    def split_control(self, text: str) -> list[str]:
        """`text` cut around every control token's name; concatenated it is `text` again."""
        return [part for part in self._control_pattern.split(text) if part]

    def unsayable(self, text: str) -> set[str]:
        """Characters of `text` that have a UTF-8 byte without a token. Raises InvalidText."""
        try:
            present = set(text.encode()) & self._unsayable
        except UnicodeEncodeError as error:
            raise InvalidText(f"Character {error.start} is half of a surrogate pair.") from None
        return {c for c in set(text) if not self._unsayable.isdisjoint(c.encode())} if present else set()

    def control_id(self, name: str) -> int:
        """Id of a control token such as `<|im_end|>`. Raises KeyError."""
        return self._control[name]

    @property
    def control_names(self) -> Set[str]:
        return self._control.keys()

    def is_control(self, token: int) -> bool:
        return token in self._control_texts

    def token_bytes(self, token: int) -> bytes:
        """The bytes a token stands for; a control token's name; none for a row that only fills the table."""
        named = self._control_texts.get(token) or self._added_texts.get(token)
        if named is not None:
            return named.encode()
        return bytes(_CHARACTER_BYTES[character] for character in self._spelling(token))

    def token_text(self, token: int) -> str:
        """The token's bytes as text; what is not whole UTF-8 is written `\\xNN`."""
        return self.token_bytes(token).decode("utf-8", "backslashreplace") or self.entry(token)

    def spells(self, token_ids: Sequence[int], text: str) -> bool:
        """Whether these tokens, none of them a control token, are the text byte by byte. False outside the
        vocabulary."""
        if not all(0 <= token < len(self) and not self.is_control(token) for token in token_ids):
            return False
        return b"".join(map(self.token_bytes, token_ids)) == text.encode()

    def entry(self, token: int) -> str:
        """The token as the vocabulary spells it (a space is `Ġ`)."""
        named = self._control_texts.get(token) or self._added_texts.get(token) or self._spelling(token)
        return named or f"[unused {token}]"

    def _spelling(self, token: int) -> str:
        """Empty for an id that has no token: a table of embeddings can have more rows than there are tokens."""
        if token < 0:
            raise IndexError(f"Token id {token} is negative.")
        return self._tokens[token] if token < len(self._tokens) else ""

    def kind(self, token: int) -> Kind:
        """What the token is by itself: without a leading space it counts as inside a word."""
        if token in self._control_texts or not self.token_bytes(token):
            return "control"
        try:
            text = self.token_bytes(token).decode()
        except UnicodeDecodeError:
            return "byte piece"
        if not text.strip():
            return "whitespace"
        if any(character.isalpha() for character in text):
            return "word start" if text[0].isspace() else "inside a word"
        return "digit" if text.strip().isnumeric() else "punctuation"

    def describe(self, tokens: Iterable[int]) -> list[Piece]:
        """Every token in its place: letters without a leading space start a word unless letters come before."""
        pieces: list[Piece] = []
        for token in tokens:
            text, kind = self.token_text(token), self.kind(token)
            after_letter = bool(pieces) and pieces[-1].kind != "control" and pieces[-1].text[-1:].isalpha()
            if kind == "inside a word" and text[0].isalpha() and not after_letter:
                kind = "word start"
            pieces.append(Piece(token, text, kind))
        return pieces

    def pieces(self, text: str) -> list[Piece]:
        """The tokens of a plain text, ready to be shown."""
        return self.describe(self.encode(text))

    def pre_tokens(self, text: str) -> list[str]:
        """The stretches of `text` that merges never cross (words, single digits, runs of spaces)."""
        stretches = self._backend.pre_tokenizer.pre_tokenize_str(text)
        return [bytes(_CHARACTER_BYTES[c] for c in stretch).decode() for stretch, _ in stretches]

    def merges(self, pre_token: str) -> Iterator[Merge]:
        """The merges, in order, that lead from the bytes of one pre-token to its tokens: the lowest rank first, of
        equal ones the leftmost. A word of n bytes takes n log n steps: anybody may type a very long one."""
        symbols = [BYTE_CHARACTERS[byte] for byte in pre_token.encode()]
        following = list(range(1, len(symbols) + 1))
        previous = list(range(-1, len(symbols) - 1))
        waiting: list[tuple[int, int, str, str]] = []

        def consider(place: int) -> None:
            """The symbol at this place and the one after it may be merged."""
            if place >= 0 and following[place] < len(symbols):
                pair = symbols[place], symbols[following[place]]
                if (rank := self._ranks.get(pair)) is not None:
                    heappush(waiting, (rank, place, *pair))

        for place in range(len(symbols)):
            consider(place)
        while waiting:
            rank, place, left, right = heappop(waiting)
            other = following[place]
            if symbols[place] != left or other >= len(symbols) or symbols[other] != right:
                continue  # one of the two was merged with another meanwhile
            symbols[place], symbols[other] = left + right, ""
            following[place] = following[other]
            if following[other] < len(symbols):
                previous[following[other]] = place
            yield Merge(_readable(left), _readable(right), _readable(left + right), rank)
            consider(previous[place])
            consider(place)

    @cached_property
    def _ranks(self) -> dict[tuple[str, str], int]:
        return {pair: rank for rank, pair in enumerate(self._merges)}

    @cached_property
    def _control_pattern(self) -> re.Pattern[str]:
        names = sorted(self._control, key=len, reverse=True)
        return re.compile(f"({'|'.join(map(re.escape, names))})" if names else r"(?!)()")


def _byte_characters() -> Sequence[str]:
    printable = {*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    substitutes = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(substitutes)) for byte in range(256)]


BYTE_CHARACTERS = _byte_characters()
"""Byte-level BPE spells each byte as one printable character: itself, or one from U+0100 on."""
_CHARACTER_BYTES = {character: byte for byte, character in enumerate(BYTE_CHARACTERS)}


def _readable(symbol: str) -> str:
    return bytes(_CHARACTER_BYTES[character] for character in symbol).decode("utf-8", "backslashreplace")
