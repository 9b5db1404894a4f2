"""The vocabulary in the files of a Hugging Face folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from inference.text import sentencepiece
from inference.text.definition import components
from inference.text.vocabulary import UnsupportedTokenizer, Vocabulary

_UNFOLLOWED = ("dropout", "continuing_subword_prefix", "end_of_word_suffix")
"""Settings of a model under which text is not split by its merges alone."""


def read(folder: Path) -> Vocabulary:
    """Raises UnsupportedTokenizer."""
    try:
        return _read(folder)
    except (KeyError, TypeError, AttributeError) as error:
        raise UnsupportedTokenizer(f"The tokenizer files of {folder.name} lack what they need: {error!r}.") from error


def _read(folder: Path) -> Vocabulary:
    if not (folder / "tokenizer.json").is_file():
        raise UnsupportedTokenizer(f"{folder.name} has no tokenizer.json, the only form of tokenizer read here.")
    definition = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    settings = _read_json(folder / "tokenizer_config.json")
    template = _template(folder, settings)
    _refuse_features(definition, template or "")
    control = {token["content"]: token["id"] for token in definition["added_tokens"] if token["special"]}
    definition["added_tokens"] = [token for token in definition["added_tokens"] if not token["special"]]
    processor = json.dumps(definition.get("post_processor"))
    # These would add control tokens, cut long texts and lengthen short ones on their own.
    definition |= dict.fromkeys(("post_processor", "truncation", "padding"))
    end_ids = _read_json(folder / "generation_config.json").get("eos_token_id", [])
    end_token = _token_name(settings.get("eos_token"))
    ends = set(end_ids if isinstance(end_ids, list) else [end_ids]) - {None}
    if end_token in control:
        ends.add(control[end_token])
    start = _token_name(settings.get("bos_token"))
    return Vocabulary(
        definition=json.dumps(definition),
        control_ids=control,
        end_ids=sorted(ends),
        start_id=control.get(start),
        starts_raw=settings.get("add_bos_token", json.dumps(start) in processor),
        chat_template=template,
    )


def _refuse_features(definition: dict[str, Any], template: str) -> None:
    model = definition["model"]
    kind = model["type"]
    if kind not in ("BPE", "Unigram"):
        raise UnsupportedTokenizer(f"Tokenizer model {kind!r}: only BPE and Unigram.")
    for name in _UNFOLLOWED:
        if model.get(name):
            raise UnsupportedTokenizer(f"Tokenizer model {kind!r} with {name} {model[name]!r}.")
    is_byte_level = any(part["type"] == "ByteLevel" for part in components(definition["pre_tokenizer"]))
    if is_byte_level and kind != "BPE":
        raise UnsupportedTokenizer(f"Tokenizer model {kind!r} over bytes.")
    if not is_byte_level and (problem := sentencepiece.unsupported(definition)):
        raise UnsupportedTokenizer(f"Tokenizer model {kind!r} with {problem}: only byte-level or SentencePiece's way.")
    for token in definition["added_tokens"]:
        swallows = next((flag for flag in ("lstrip", "rstrip") if token.get(flag)), None)
        if token["special"] and swallows and token["content"] in template:
            raise UnsupportedTokenizer(f"Control token {token['content']!r} that swallows spaces ({swallows}).")


def _template(folder: Path, settings: dict[str, Any]) -> str | None:
    template_file = folder / "chat_template.jinja"
    if template_file.is_file():
        return template_file.read_text(encoding="utf-8")
    template = settings.get("chat_template")
    if isinstance(template, list):  # several by name, in older files
        template = next((one["template"] for one in template if one["name"] == "default"), None)
    return template if isinstance(template, str) else None


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def _token_name(entry: Any) -> str:
    return str(entry["content"] if isinstance(entry, dict) else entry)
