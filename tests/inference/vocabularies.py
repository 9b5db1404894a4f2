"""Small vocabularies in SentencePiece's way, trained on the project's own pages, as files of both kinds."""

from __future__ import annotations

import io
import json
from functools import cache
from pathlib import Path
from typing import Any

import gguf
import sentencepiece
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, trainers

PAGES = [*Path(__file__).parents[2].glob("docs/*.md"), Path(__file__).parents[2] / "README.md"]
LINES = [line for page in sorted(PAGES) for line in page.read_text(encoding="utf-8").splitlines() if line]
MARK = "▁"
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
ADDED = ["\n\n", "  ", "    ", "<table>"]
CONTROL = ["<unk>", "<s>", "</s>", "<turn>"]
LLAMA2_TEMPLATE = (
    "{% for m in messages %}{% if m['role'] == 'user' %}{{ bos_token + '[INST] ' + m['content'] + ' [/INST]' }}"
    "{% else %}{{ ' ' + m['content'] + ' ' + eos_token }}{% endif %}{% endfor %}"
)
_REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": MARK}
_PREPEND = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": MARK}, _REPLACE]}
_STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
_DECODERS = [
    {"type": "Replace", "pattern": {"String": MARK}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
]  # fmt: skip


def _metaspace(scheme: str, split: bool) -> dict[str, Any]:
    return {"type": "Metaspace", "replacement": MARK, "prepend_scheme": scheme, "split": split}


def _decoder(*more: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "decoders": [*_DECODERS, *more]}


STYLES: dict[str, dict[str, Any]] = {
    "llama 2": {"normalizer": _PREPEND, "pre_tokenizer": None, "decoder": _decoder(_STRIP)},
    "mistral": {"normalizer": None, "pre_tokenizer": _metaspace("first", False), "decoder": _decoder(_STRIP)},
    "gemma": {
        "normalizer": _REPLACE,
        "pre_tokenizer": {
            "type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False,
        },
        "decoder": _decoder(),
    },
    "unigram": {
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": _metaspace("always", True),
        "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, _metaspace("always", True)]},
    },
}  # fmt: skip
"""What stands in a tokenizer.json beside the model, in the families that came out with it."""


USER_DEFINED = ["\n\n", MARK * 2, MARK * 4, "<table>"]


@cache
def trained(*, dummy_prefix: bool) -> sentencepiece.SentencePieceProcessor:
    """With a space before every text as in Llama 2; without, and with tokens of its author's own, as in Gemma."""
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=written, vocab_size=900, model_type="bpe", byte_fallback=True,
        add_dummy_prefix=dummy_prefix, normalization_rule_name="identity", remove_extra_whitespaces=False,
        control_symbols=["<turn>"], user_defined_symbols=[] if dummy_prefix else USER_DEFINED,
        minloglevel=2, num_threads=1,
    )  # fmt: skip
    return sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())


def gguf_file(path: Path, model: sentencepiece.SentencePieceProcessor, *, dummy_prefix: bool, **also: Any) -> Path:
    """The vocabulary alone, as converters write it."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("llama")
    ids = range(model.get_piece_size())
    pieces = [model.id_to_piece(i) for i in ids]
    defined = [] if dummy_prefix else USER_DEFINED
    writer.add_token_list([piece.replace(MARK, " ") if piece in defined else piece for piece in pieces])
    writer.add_token_scores([model.get_score(i) for i in ids])
    writer.add_token_types([gguf.TokenType.USER_DEFINED if pieces[i] in defined else _kind(model, i) for i in ids])
    writer.add_add_space_prefix(dummy_prefix)
    writer.add_bos_token_id(model.bos_id())
    writer.add_eos_token_id(model.eos_id())
    for key, value in also.items():
        writer.add_key_value(f"tokenizer.{key}", value, gguf.GGUFValueType.get_type(value))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


def _kind(model: sentencepiece.SentencePieceProcessor, token: int) -> gguf.TokenType:
    if model.is_unknown(token):
        return gguf.TokenType.UNKNOWN
    if model.is_control(token):
        return gguf.TokenType.CONTROL
    if model.is_byte(token):
        return gguf.TokenType.BYTE
    return gguf.TokenType.NORMAL


def folder(path: Path, style: str, *, template: str | None = None, **settings: Any) -> Path:
    """tokenizer.json and tokenizer_config.json of a vocabulary trained by the library that reads them."""
    definition = json.loads(_definition(style))
    (path / "tokenizer.json").write_text(json.dumps(definition))
    named = {"bos_token": "<s>", "eos_token": "</s>", "chat_template": template}
    (path / "tokenizer_config.json").write_text(json.dumps(named | settings))
    return path


@cache
def _definition(style: str) -> str:
    is_unigram = style == "unigram"
    learner = tokenizers.Tokenizer(models.Unigram() if is_unigram else models.BPE())
    learner.normalizer = normalizers.Replace(" ", MARK)
    learner.pre_tokenizer = pre_tokenizers.Metaspace()
    kinds = {True: trainers.UnigramTrainer, False: trainers.BpeTrainer}
    learner.train_from_iterator(LINES, kinds[is_unigram](vocab_size=600, show_progress=False))
    learned = json.loads(learner.to_str())["model"]
    first = [*CONTROL, *BYTES, *ADDED]
    if is_unigram:
        model = {
            "type": "Unigram", "unk_id": 0, "byte_fallback": True,
            "vocab": [[token, 0.0] for token in first] + [one for one in learned["vocab"] if one[0] not in first],
        }  # fmt: skip
    else:
        ordered = sorted(learned["vocab"], key=learned["vocab"].__getitem__)
        model = {
            "type": "BPE", "unk_token": "<unk>", "byte_fallback": True, "fuse_unk": True,
            "vocab": {token: index for index, token in enumerate([*first, *(t for t in ordered if t not in first)])},
            "merges": learned["merges"],
        }  # fmt: skip
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    added = [
        {"id": first.index(token), "content": token, "special": token in CONTROL, **flags}
        for token in [*CONTROL, *ADDED]
    ]
    return json.dumps({"version": "1.0", "added_tokens": added, "model": model, **STYLES[style]})
