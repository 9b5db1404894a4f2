"""What a checkpoint says about its text, in one neutral form whatever kind of file said it."""

from __future__ import annotations

import msgspec


class UnsupportedTokenizer(ValueError):
    """The checkpoint's tokenizer needs a feature that is not built; the message names it."""


class Vocabulary(msgspec.Struct, frozen=True):
    """Tokens, merges, control tokens, chat template.

    `definition` is the content of a `tokenizer.json` without control tokens.
    """

    definition: str
    control_ids: dict[str, int]
    end_ids: list[int]
    start_id: int | None
    starts_raw: bool  # whether the checkpoint asks for the start token before a raw prompt
    chat_template: str | None
