"""The text of one answer as its tokens arrive: whole characters only, and nothing of a stop string."""

from __future__ import annotations

from collections.abc import Sequence

from inference.text import Detokenizer, StopMatcher, Tokenizer


class Answer:
    """Feed tokens; get the text that may be shown. `stop` names what ended it: a stop string or an end token."""

    def __init__(self, tokenizer: Tokenizer, stop_token_ids: Sequence[int], stops: Sequence[str]) -> None:
        self._tokenizer = tokenizer
        self._detokenizer = Detokenizer(tokenizer)
        self._matcher = StopMatcher(stops)
        self._stop_token_ids = frozenset(stop_token_ids)
        self.token_ids: list[int] = []
        self.stop: str | None = None

    def push(self, token: int) -> str:
        """The text released by this token."""
        self.token_ids.append(token)
        if token in self._stop_token_ids:
            self.stop = self._tokenizer.token_text(token)
            return ""
        text = self._matcher.push(self._detokenizer.push(token))
        self.stop = self._matcher.matched
        return text

    def flush(self) -> str:
        """Text held back for a stop string that did not come. Half a character is dropped."""
        return self._matcher.flush()

    @property
    def num_held_bytes(self) -> int:
        return self._detokenizer.num_held_bytes + len(self._matcher.held.encode())
