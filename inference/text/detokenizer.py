"""Token ids to text, one at a time, without ever showing half a character."""

from __future__ import annotations

import codecs

from inference.text.tokenizer import Tokenizer


class Detokenizer:
    """Feed ids, get text. A character split over tokens is held back until its last byte has come.

    Bytes that can never become a character are written `\\xNN`. A character still unfinished when the response
    ends is dropped: it was cut off, it is not part of the answer. Control tokens have no text, and where the tokenizer
    puts a space before every text, the first one is taken away again.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._drops_space = tokenizer.drops_first_space
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")

    def push(self, token: int) -> str:
        """The text that became whole with this token."""
        if self._tokenizer.is_control(token):
            return ""
        spelled = self._tokenizer.token_bytes(token)
        if self._drops_space and spelled:
            self._drops_space = False
            spelled = spelled.removeprefix(b" ")
        return self._decoder.decode(spelled)

    @property
    def num_held_bytes(self) -> int:
        """Bytes of the character not finished yet."""
        return len(self._decoder.getstate()[0])
