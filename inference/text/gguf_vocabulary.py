"""The vocabulary in the metadata of a GGUF file."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gguf import TokenType

from inference.checkpoint.gguf_reader import open_gguf
from inference.text.byte_level import PRE_TOKENIZERS, WHOLE_FIRST
from inference.text.sentencepiece import definition_from_scores
from inference.text.vocabulary import UnsupportedTokenizer, Vocabulary

_MODELS = {"gpt2": "byte-level BPE", "llama": "SentencePiece BPE"}
_TURN_ENDS = ("<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>")
"""Control tokens that end a turn wherever a chat template writes them: files of several families name only the end of
a whole text."""
_MARKER = re.compile(r"<\S+>|\[\S+\]")


def read(path: Path) -> Vocabulary:
    """Raises UnsupportedTokenizer, UnsupportedCheckpoint."""
    reader = open_gguf(path)

    def find(key: str, default: Any = None) -> Any:
        value = reader.value(f"tokenizer.{key}")
        return default if value is None else value

    model = find("ggml.model")
    if model not in _MODELS:
        known = ", ".join(f"{name!r} ({kind})" for name, kind in _MODELS.items())
        raise UnsupportedTokenizer(f"Tokenizer model {model!r}: only {known}.")
    template: str | None = find("chat_template")
    ends = {find(f"ggml.{name}_token_id") for name in ("eos", "eot")} - {None}
    start = find("ggml.bos_token_id")
    if model == "gpt2":
        definition, control = _byte_level(find)
        # Where the file does not say, the format's readers go by the way of cutting.
        starts_raw = find("ggml.add_bos_token", find("ggml.pre") in WHOLE_FIRST)
    else:
        definition, control = _sentencepiece(find, template or "", {start, *ends})
        starts_raw = find("ggml.add_bos_token", True)
    ends |= {control[name] for name in _TURN_ENDS if name in control and name in (template or "")}
    return Vocabulary(
        definition=json.dumps(definition),
        control_ids=control,
        end_ids=sorted(ends),
        start_id=start,
        starts_raw=starts_raw,
        chat_template=template,
    )


def _byte_level(find: Callable[..., Any]) -> tuple[dict[str, Any], dict[str, int]]:
    """Definition and control tokens. What the file's author added by hand counts as control."""
    pre = find("ggml.pre", "gpt-2")
    if pre not in PRE_TOKENIZERS:
        raise UnsupportedTokenizer(f"Pre-tokenizer {pre!r}: only {', '.join(sorted(PRE_TOKENIZERS))}.")
    tokens, types = _required(find, "tokens"), _required(find, "token_type")
    control = {
        token: index
        for index, (token, kind) in enumerate(zip(tokens, types, strict=True))
        if kind in (TokenType.CONTROL, TokenType.USER_DEFINED)
    }
    definition = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": PRE_TOKENIZERS[pre],
        "model": {
            "type": "BPE",
            "ignore_merges": pre in WHOLE_FIRST,
            "vocab": {token: index for index, token in enumerate(tokens)},
            "merges": [merge.split(" ") for merge in _required(find, "merges")],
        },
    }
    return definition, control


def _sentencepiece(
    find: Callable[..., Any], template: str, named: set[int | None]
) -> tuple[dict[str, Any], dict[str, int]]:
    """Definition and control tokens: those of that type, the `named` ids, and markers that the template writes
    (older files call them user-defined)."""
    tokens, types, scores = (_required(find, name) for name in ("tokens", "token_type", "scores"))
    control: dict[str, int] = {}
    added: dict[str, int] = {}
    merged: dict[str, float] = {}
    for index, (token, kind, score) in enumerate(zip(tokens, types, scores, strict=True)):
        is_marker = kind == TokenType.USER_DEFINED and _MARKER.fullmatch(token) and token in template
        if kind in (TokenType.CONTROL, TokenType.UNKNOWN) or index in named or is_marker:
            control[token] = index
        elif kind == TokenType.USER_DEFINED:
            added[token] = index
        elif kind != TokenType.BYTE:
            merged[token] = score
    definition = definition_from_scores(tokens, merged, added, prefix=find("ggml.add_space_prefix", True))
    return definition, control


def _required(find: Callable[..., Any], name: str) -> list[Any]:
    found: list[Any] | None = find(f"ggml.{name}")
    if found is None:
        raise UnsupportedTokenizer(f"The metadata field tokenizer.ggml.{name} is missing.")
    return found
