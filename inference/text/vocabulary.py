"""What a checkpoint says about its text: tokens, merges, control tokens, chat template.

Read from a GGUF file's metadata or from a Hugging Face folder into one neutral form, `Vocabulary`. Going through
100,000 metadata entries of a GGUF file takes seconds, so the result is kept as JSON in a cache folder, keyed by
the file's name, size and modification time.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import msgspec
from gguf import GGUFReader

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
GGUF_CONTROL, GGUF_USER_DEFINED = 3, 4  # values of tokenizer.ggml.token_type
CACHE_FORMAT = 3


class UnsupportedTokenizer(ValueError):
    """The checkpoint's tokenizer needs a feature that is not built; the message names it."""


class Vocabulary(msgspec.Struct, frozen=True):
    """A tokenizer in neutral form. `definition` is the content of a `tokenizer.json` without control tokens."""

    definition: str
    control_ids: dict[str, int]
    end_ids: list[int]
    start_id: int | None
    starts_raw: bool  # whether the checkpoint asks for the start token before a raw prompt
    chat_template: str | None

    @classmethod
    def load(cls, path: Path, cache_folder: Path | None = None) -> Vocabulary:
        """From a GGUF file or a Hugging Face folder. Raises UnsupportedTokenizer, FileNotFoundError."""
        if path.is_dir():
            return _from_folder(path)
        if not path.is_file():
            raise FileNotFoundError(f"No checkpoint at {path}.")
        return _from_gguf(path) if cache_folder is None else _from_cache(path, cache_folder)


def _from_cache(path: Path, cache_folder: Path) -> Vocabulary:
    stat = path.stat()
    key = f"{CACHE_FORMAT}:{path.name}:{stat.st_size}:{stat.st_mtime_ns}"
    cached = cache_folder / f"tokenizer-{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"
    try:
        return msgspec.json.decode(cached.read_bytes(), type=Vocabulary)
    except (OSError, msgspec.DecodeError):
        vocabulary = _from_gguf(path)
    try:
        cache_folder.mkdir(parents=True, exist_ok=True)
        unfinished = cached.with_suffix(f".{os.getpid()}")
        unfinished.write_bytes(msgspec.json.encode(vocabulary))
        unfinished.replace(cached)  # whole or not at all, also when two processes start together
    except OSError:
        pass  # a data folder that cannot be written only costs the next start its time
    return vocabulary


def _from_gguf(path: Path) -> Vocabulary:
    fields = GGUFReader(path).fields

    def read(key: str, default: Any = None) -> Any:
        field = fields.get(f"tokenizer.{key}")
        return default if field is None else field.contents()

    if read("ggml.model") != "gpt2":
        raise UnsupportedTokenizer(f"Tokenizer model {read('ggml.model')!r}: only byte-level BPE ('gpt2').")
    pre = read("ggml.pre", "gpt-2")
    if pre not in PRE_TOKENIZERS:
        raise UnsupportedTokenizer(f"Pre-tokenizer {pre!r}: only {', '.join(sorted(PRE_TOKENIZERS))}.")
    tokens: list[str] = read("ggml.tokens")
    types: list[int] = read("ggml.token_type")
    control = {
        token: index
        for index, (token, kind) in enumerate(zip(tokens, types, strict=True))
        if kind in (GGUF_CONTROL, GGUF_USER_DEFINED)
    }
    definition = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": PRE_TOKENIZERS[pre],
        "model": {
            "type": "BPE",
            "ignore_merges": pre in WHOLE_FIRST,
            "vocab": {token: index for index, token in enumerate(tokens)},
            "merges": [merge.split(" ") for merge in read("ggml.merges")],
        },
    }
    end_ids = {read(f"ggml.{name}_token_id") for name in ("eos", "eot")} - {None}
    return Vocabulary(
        definition=json.dumps(definition),
        control_ids=control,
        end_ids=sorted(end_ids),
        start_id=read("ggml.bos_token_id"),
        # Where the file does not say, the format's readers go by the way of cutting.
        starts_raw=read("ggml.add_bos_token", pre in WHOLE_FIRST),
        chat_template=read("chat_template"),
    )


def _from_folder(folder: Path) -> Vocabulary:
    try:
        return _read_folder(folder)
    except (KeyError, TypeError, AttributeError) as error:
        raise UnsupportedTokenizer(f"The tokenizer files of {folder.name} lack what they need: {error!r}.") from error


def _read_folder(folder: Path) -> Vocabulary:
    definition = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    if definition["model"]["type"] != "BPE" or "ByteLevel" not in json.dumps(definition["pre_tokenizer"]):
        raise UnsupportedTokenizer(f"Tokenizer model {definition['model']['type']!r}: only byte-level BPE.")
    control = {token["content"]: token["id"] for token in definition["added_tokens"] if token["special"]}
    definition["added_tokens"] = [token for token in definition["added_tokens"] if not token["special"]]
    processor = json.dumps(definition.get("post_processor"))
    definition["post_processor"] = None  # would add control tokens on its own
    settings = _read_json(folder / "tokenizer_config.json")
    end_ids = _read_json(folder / "generation_config.json").get("eos_token_id", [])
    end_token = _token_name(settings.get("eos_token"))
    ends = set(end_ids if isinstance(end_ids, list) else [end_ids]) - {None}
    if end_token in control:
        ends.add(control[end_token])
    template_file = folder / "chat_template.jinja"
    template = settings.get("chat_template")
    if template_file.is_file():
        template = template_file.read_text(encoding="utf-8")
    elif isinstance(template, list):  # several by name, in older files
        template = next((one["template"] for one in template if one["name"] == "default"), None)
    start = _token_name(settings.get("bos_token"))
    return Vocabulary(
        definition=json.dumps(definition),
        control_ids=control,
        end_ids=sorted(ends),
        start_id=control.get(start),
        starts_raw=settings.get("add_bos_token", json.dumps(start) in processor),
        chat_template=template if isinstance(template, str) else None,
    )


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def _token_name(entry: Any) -> str:
    return str(entry["content"] if isinstance(entry, dict) else entry)
