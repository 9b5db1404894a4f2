"""Text to token ids and back, and everything a page wants to know about a token."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, Protocol

import msgspec
import tokenizers

from inference.text import sentencepiece
from inference.text.byte_level import ByteLevelSpelling
from inference.text.definition import Definition
from inference.text.loading import load_vocabulary
from inference.text.merging import merge_steps
from inference.text.vocabulary import Vocabulary

Kind = Literal["word start", "inside a word", "digit", "punctuation", "whitespace", "byte piece", "control"]
Before = Literal["nothing", "control", "text"]
"""What a text follows: nothing (a prompt begins), a control token, or other text, which it carries on."""


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


class Spelling(Protocol):
    """How a vocabulary writes text, and where its merging begins."""

    def bytes_of(self, entry: str) -> bytes:
        """What an entry of the vocabulary stands for."""

    def bytes_of_added(self, content: str) -> bytes:
        """What a token stands for that is found in a text before anything else."""

    def unsayable(self, text: str) -> set[str]:
        """Characters of a text, valid Unicode, that no tokens spell."""

    def stretches(self, text: str) -> list[str]:
        """`text` cut where merges never cross."""

    def symbols(self, stretch: str) -> list[str]:
        """The entries that merging begins with."""


class Tokenizer:
    """Turns text into ids without ever making a control token out of it."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._backend = self._continuing = tokenizers.Tokenizer.from_str(vocabulary.definition)
        definition = msgspec.json.decode(vocabulary.definition, type=Definition)
        ids = definition.model.ids
        self._prefixed: sentencepiece.Prefixed = "never"
        self.drops_first_space = False
        self._spelling: Spelling
        if definition.is_byte_level:
            self._spelling = ByteLevelSpelling(self._backend, ids)
        else:
            self._prefixed = sentencepiece.prefixed(definition)
            self.drops_first_space = sentencepiece.drops_first_space(definition)
            if self._prefixed != "never":
                self._continuing = tokenizers.Tokenizer.from_str(sentencepiece.without_prefix(vocabulary.definition))
            self._spelling = sentencepiece.SentencePieceSpelling(self._continuing, ids, definition)
        self._merges = definition.model.pairs
        self._control = vocabulary.control_ids
        self._control_texts = {index: text for text, index in self._control.items()}
        self._added_texts = {token.id: token.content for token in definition.added_tokens}
        self._tokens = [""] * (1 + max([*ids.values(), *self._control_texts, *self._added_texts]))
        for token, index in ids.items():
            self._tokens[index] = token
        self.is_unigram = definition.model.type == "Unigram"
        self.end_ids = vocabulary.end_ids
        self.start_id = vocabulary.start_id
        self._before_raw = [] if vocabulary.start_id is None or not vocabulary.starts_raw else [vocabulary.start_id]
        self.chat_template = vocabulary.chat_template

    @classmethod
    def load(cls, path: Path, cache_folder: Path | None = None) -> Tokenizer:
        """From a GGUF file or a folder with tokenizer.json; `cache_folder` makes later loads of GGUF fast.
        Raises UnsupportedTokenizer, FileNotFoundError."""
        return cls(load_vocabulary(path, cache_folder))

    def __len__(self) -> int:
        """Ids in the vocabulary, control tokens included."""
        return len(self._tokens)

    def encode(self, text: str, before: Before = "nothing") -> list[int]:
        """Ids of plain text: `<|im_end|>` typed by a person becomes the tokens of its characters.

        `before` says what the text follows; some tokenizers put a space in front by that. Characters that the
        vocabulary has no tokens for (see `unsayable`) are left out whole. Raises InvalidText.
        """
        return [token for token, _ in self.encode_with_starts(text, before)]

    def encode_with_starts(self, text: str, before: Before = "nothing") -> list[tuple[int, int]]:
        """(id, index in `text` of the character the token begins in). Raises InvalidText."""
        dropped = self.unsayable(text)
        kept = text.translate(dict.fromkeys(map(ord, dropped))) if dropped else text
        is_prefixed = before == "nothing" or (before == "control" and self._prefixed == "always")
        encoding = (self._backend if is_prefixed else self._continuing).encode(kept, add_special_tokens=False)
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
            before: Before = "control" if ids else "nothing"
            ids += [self._control[part]] if part in self._control else self.encode(part, before)
        return ids if ids[:1] == [self.start_id] else self._before_raw + ids

    def split_control(self, text: str) -> list[str]:
        """`text` cut around every control token's name; concatenated it is `text` again."""
        return [part for part in self._control_pattern.split(text) if part]

    def unsayable(self, text: str) -> set[str]:
        """Characters of `text` without tokens. Raises InvalidText."""
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidText(f"Character {error.start} is half of a surrogate pair.") from None
        return self._spelling.unsayable(text)

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
        if (name := self._control_texts.get(token)) is not None:
            return name.encode()
        if (content := self._added_texts.get(token)) is not None:
            return self._spelling.bytes_of_added(content)
        return self._spelling.bytes_of(self._spelled(token))

    def token_text(self, token: int) -> str:
        """The token's bytes as text; what is not whole UTF-8 is written `\\xNN`."""
        return self.token_bytes(token).decode("utf-8", "backslashreplace") or self.entry(token)

    def spells(self, token_ids: Sequence[int], text: str) -> bool:
        """Whether these tokens, none of them a control token, are an answer of this text byte by byte. False outside
        the vocabulary."""
        if not all(0 <= token < len(self) and not self.is_control(token) for token in token_ids):
            return False
        spelled = b"".join(map(self.token_bytes, token_ids))
        return (spelled.removeprefix(b" ") if self.drops_first_space else spelled) == text.encode()

    def entry(self, token: int) -> str:
        """The token as the vocabulary spells it (a space is `Ġ` or `▁`)."""
        named = self._control_texts.get(token) or self._added_texts.get(token) or self._spelled(token)
        return named or f"[unused {token}]"

    def _spelled(self, token: int) -> str:
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

    def words(self, token_ids: Sequence[int], start: int, stop: int) -> list[str]:
        """The different words, as merges never cross them, that the tokens of places start to stop - 1 are pieces of,
        in order."""
        words: dict[str, None] = {}
        for begin, run in self._runs(token_ids):
            if begin + len(run) <= start or begin >= stop:
                continue
            sizes = [len(self.token_bytes(token)) for token in run]
            first = sum(sizes[: max(start - begin, 0)])
            last = sum(sizes[: stop - begin])
            at = 0
            for word in self.pre_tokens(b"".join(map(self.token_bytes, run)).decode(errors="replace")):
                end = at + len(word.encode())
                if at < last and end > first:
                    words[word] = None
                at = end
        return list(words)

    def _runs(self, token_ids: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
        """Stretches of plain text between control tokens: where each begins, and its ids."""
        begin, run = 0, list[int]()
        for place, token in enumerate(token_ids):
            if self.is_control(token):
                if run:
                    yield begin, run
                begin, run = place + 1, []
            else:
                run.append(token)
        if run:
            yield begin, run

    def pre_tokens(self, text: str) -> list[str]:
        """The stretches of `text` that merges never cross (words, single digits, runs of spaces)."""
        return self._spelling.stretches(text)

    def merges(self, pre_token: str) -> Iterator[Merge]:
        """The merges, in order, that lead from the bytes or characters of one pre-token to its tokens. A vocabulary
        that splits by likelihood (Unigram) has none."""
        for (left, right), rank in merge_steps(self._spelling.symbols(pre_token), self._ranks):
            yield Merge(self._readable(left), self._readable(right), self._readable(left + right), rank)

    def _readable(self, entry: str) -> str:
        return self._spelling.bytes_of(entry).decode("utf-8", "backslashreplace")

    @cached_property
    def _ranks(self) -> dict[tuple[str, str], int]:
        return {pair: rank for rank, pair in enumerate(self._merges)}

    @cached_property
    def _control_pattern(self) -> re.Pattern[str]:
        names = sorted(self._control, key=len, reverse=True)
        return re.compile(f"({'|'.join(map(re.escape, names))})" if names else r"(?!)()")
