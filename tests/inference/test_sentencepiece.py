"""Vocabularies in SentencePiece's way give the ids and texts that the libraries give which made them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import pytest
import tokenizers
from hypothesis import example, given, settings
from hypothesis import strategies as st

from inference.text import ChatTemplate, Detokenizer, Message, Tokenizer
from inference.text.vocabulary import UnsupportedTokenizer
from tests.inference import vocabularies
from tests.inference.vocabularies import ADDED, BYTES, CONTROL, LLAMA2_TEMPLATE, MARK, STYLES

WORDS = sorted({word for line in vocabularies.LINES for word in line.split()})
texts = st.one_of(
    st.text(),
    st.lists(st.sampled_from([*WORDS, *ADDED, " ", "\n", "é", "한", "👩‍👧", "aaa", "ssss"]), max_size=12).map("".join),
    st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join),
).filter(lambda text: MARK not in text and not any(name in text for name in CONTROL))
"""Without the mark itself, which every such tokenizer takes for a space."""


def spoken(tokenizer: Tokenizer, ids: list[int]) -> str:
    detokenizer = Detokenizer(tokenizer)
    return "".join(map(detokenizer.push, ids))


# ---------------------------------------------------------------- GGUF


@pytest.mark.parametrize("dummy_prefix", [True, False])
def test_a_gguf_file_gives_the_ids_of_sentencepiece(dummy_prefix: bool, tmp_path: Path) -> None:
    model = vocabularies.trained(dummy_prefix=dummy_prefix)
    ours = Tokenizer.load(vocabularies.gguf_file(tmp_path / "a.gguf", model, dummy_prefix=dummy_prefix))

    @settings(max_examples=300, deadline=None)
    @given(texts)
    @example(" leading  spaces and the   streaming\n\n")
    @example("eeeee ssssssss  nnnn")
    def check(text: str) -> None:
        found = ours.encode(text)
        assert found == model.encode(text)
        assert spoken(ours, found) == text

    check()


def test_marks_of_turns_are_control_tokens_whatever_the_file_calls_them(tmp_path: Path) -> None:
    """And the end of a turn ends an answer: files of several families name only the end of a whole text."""
    entries = ["<unk>", "<s>", "</s>", "<turn>", "<end_of_turn>", "<table>", *BYTES]
    kinds = [gguf.TokenType.UNKNOWN, *[gguf.TokenType.CONTROL] * 2, *[gguf.TokenType.USER_DEFINED] * 3]
    writer = gguf.GGUFWriter(tmp_path / "a.gguf", "llama")
    writer.add_tokenizer_model("llama")
    writer.add_token_list(entries)
    writer.add_token_scores([0.0] * len(entries))
    writer.add_token_types([*kinds, *[gguf.TokenType.BYTE] * 256])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template("<turn>{{ messages[0]['content'] }}<end_of_turn>")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    ours = Tokenizer.load(tmp_path / "a.gguf")
    assert ours.control_names == set(entries[:5])
    assert ours.end_ids == [2, 4]
    typed = ours.encode("<turn><table></s>", "text")
    assert not any(map(ours.is_control, typed))
    assert entries.index("<table>") in typed
    assert ours.encode_raw("a") == [1, *ours.encode("a")], "the start token goes before a raw prompt"


def test_what_a_gguf_vocabulary_lacks_is_named(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "a.gguf", "llama")
    writer.add_tokenizer_model("llama")
    writer.add_token_list(["a"])
    writer.add_token_types([1])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with pytest.raises(UnsupportedTokenizer, match=r"tokenizer\.ggml\.scores is missing"):
        Tokenizer.load(tmp_path / "a.gguf")


# ---------------------------------------------------------------- Hugging Face folders


@pytest.mark.parametrize("style", STYLES)
def test_a_folder_gives_the_ids_and_texts_of_its_own_library(style: str, tmp_path: Path) -> None:
    ours = Tokenizer.load(vocabularies.folder(tmp_path, style))
    reference = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))

    @settings(max_examples=200, deadline=None)
    @given(texts)
    @example(" leading  spaces and the   streaming\n\n")
    def check(text: str) -> None:
        found = ours.encode(text)
        assert found == reference.encode(text, add_special_tokens=False).ids
        assert spoken(ours, found) == reference.decode(found, skip_special_tokens=False)
        places = [start for _, start in ours.encode_with_starts(text)]
        assert places == sorted(places)
        assert all(0 <= place < len(text) for place in places)

    check()


@pytest.mark.parametrize("style", STYLES)
def test_a_conversation_has_the_ids_of_its_whole_text(style: str, tmp_path: Path) -> None:
    """Although control tokens that a person types stay text, and each stretch is split by itself."""
    ours = Tokenizer.load(vocabularies.folder(tmp_path, style, template=LLAMA2_TEMPLATE))
    reference = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    template = ChatTemplate(ours)

    @settings(max_examples=60, deadline=None)
    @given(st.lists(texts, min_size=1, max_size=3))
    def check(contents: list[str]) -> None:
        turns = [Message.of(("user", "assistant")[n % 2], text) for n, text in enumerate(contents)]
        segments = template.render(turns)
        whole = "".join(segment.text for segment in segments)
        found = [token for segment in segments for token in segment.token_ids]
        assert found == reference.encode(whole, add_special_tokens=False).ids
        said = [segment.text for segment in segments if segment.source in ("user", "assistant")]
        assert said == [text for text in contents if text]

    check()


@pytest.mark.parametrize("style", ["llama 2", "mistral", "unigram"])
def test_an_answer_goes_into_the_next_prompt_as_the_model_wrote_it(style: str, tmp_path: Path) -> None:
    ours = Tokenizer.load(vocabularies.folder(tmp_path, style, template=LLAMA2_TEMPLATE))
    template = ChatTemplate(ours)
    question = Message.of("user", "What streams?")
    first = [token for segment in template.render([question]) for token in segment.token_ids]
    written = ours.encode(" Every response streams", "text")
    text = spoken(ours, written)
    assert text == "Every response streams"
    assert ours.spells(written, text)
    assert not ours.spells(written, " " + text)
    following = template.render([question, Message.of("assistant", text, token_ids=tuple(written))])
    ids = [token for segment in following for token in segment.token_ids]
    assert ids == [*first, *written, *ours.encode(" ", "text"), ours.end_ids[0]]


@pytest.mark.parametrize("style", STYLES)
def test_merges_of_the_words_lead_to_the_tokens(style: str, tmp_path: Path) -> None:
    ours = Tokenizer.load(vocabularies.folder(tmp_path, style))

    @settings(max_examples=100, deadline=None)
    @given(texts)
    def check(text: str) -> None:
        ids = ours.encode(text)
        words = ours.pre_tokens(b"".join(map(ours.token_bytes, ids)).decode())
        assert "".join(words).encode() == b"".join(map(ours.token_bytes, ids))
        if style == "unigram":
            assert not any(list(ours.merges(word)) for word in words)
        else:
            begun = sum(len(ours._spelling.symbols(word)) for word in words)
            assert begun - sum(len(list(ours.merges(word))) for word in words) == len(ids)

    check()


def test_words_and_their_merges_are_those_of_the_chosen_tokens(tmp_path: Path) -> None:
    ours = Tokenizer.load(vocabularies.folder(tmp_path, "llama 2"))
    ids = [1, *ours.encode("every response\n\n<table>")]
    assert ours.words(ids, 0, len(ids)) == [" every", " response", "\n\n", "<table>"]
    (at,) = (place for place, token in enumerate(ids) if ours.token_text(token) == " response")
    assert ours.words(ids, at, at + 1) == [" response"]
    assert list(ours.merges(" response"))[-1].merged == " response"
    assert list(ours.merges("<table>")) == []


def test_a_character_without_a_token_comes_as_bytes_and_is_held_until_it_is_whole(tmp_path: Path) -> None:
    ours = Tokenizer.load(vocabularies.folder(tmp_path, "gemma"))
    ids = ours.encode("👩")
    assert [ours.entry(token) for token in ids] == ["<0xF0>", "<0x9F>", "<0x91>", "<0xA9>"]
    assert [ours.token_text(token) for token in ids] == ["\\xf0", "\\x9f", "\\x91", "\\xa9"]
    assert {piece.kind for piece in ours.describe(ids)} == {"byte piece"}
    assert ours.kind(ours.encode("\r")[0]) == "whitespace"
    detokenizer = Detokenizer(ours)
    assert [detokenizer.push(token) for token in ids] == ["", "", "", "👩"]


def test_a_character_that_no_token_spells_is_left_out_whole_and_can_be_named(tmp_path: Path) -> None:
    definition = written(vocabularies.folder(tmp_path, "unigram"))
    definition["model"]["byte_fallback"] = False
    (tmp_path / "tokenizer.json").write_text(json.dumps(definition))
    ours = Tokenizer.load(tmp_path)
    assert ours.unsayable("the 한 e\u0301") == {"한", "\u0301"}
    assert ours.encode("the한re") == ours.encode("there")


def test_gemma_calls_the_assistant_its_model(tmp_path: Path) -> None:
    turns = (
        "{% for m in messages %}<turn>{{ 'model' if m.role == 'assistant' else m.role }}\n{{ m.content }}{% endfor %}"
    )
    ours = Tokenizer.load(vocabularies.folder(tmp_path, "gemma", template=turns))
    segments = ChatTemplate(ours).render([Message.of("user", "a"), Message.of("assistant", "b")])
    assert [(segment.role, segment.text, segment.is_marker) for segment in segments] == [
        ("user", "<turn>user\n", True), ("user", "a", False),
        ("assistant", "<turn>model\n", True), ("assistant", "b", False),
    ]  # fmt: skip


# ---------------------------------------------------------------- refused by name


def written(folder: Path) -> dict[str, Any]:
    definition: dict[str, Any] = json.loads((folder / "tokenizer.json").read_text())
    return definition


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"model": {"type": "WordPiece"}}, "Tokenizer model 'WordPiece'"),
        ({"model": {"type": "BPE", "dropout": 0.1}}, r"dropout 0\.1"),
        ({"model": {"type": "BPE", "end_of_word_suffix": "</w>"}}, "end_of_word_suffix '</w>'"),
        ({"model": {"type": "Unigram"}, "pre_tokenizer": {"type": "ByteLevel"}}, "'Unigram' over bytes"),
        ({"decoder": {"type": "WordPiece"}}, "decoder 'WordPiece'"),
        ({"normalizer": None}, "spaces without a mark"),
        ({"normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "_"}}, "spaces written as"),
    ],
)
def test_what_a_tokenizer_needs_and_is_not_built_is_refused_by_name(
    changes: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    definition = written(vocabularies.folder(tmp_path, "llama 2"))
    (tmp_path / "tokenizer.json").write_text(json.dumps(definition | changes))
    with pytest.raises(UnsupportedTokenizer, match=problem):
        Tokenizer.load(tmp_path)


def test_control_tokens_that_swallow_spaces_are_refused_where_a_template_uses_them(tmp_path: Path) -> None:
    definition = written(vocabularies.folder(tmp_path, "llama 2", template="<turn>{{ messages[0]['content'] }}"))
    for token in definition["added_tokens"]:
        token["rstrip"] = token["content"] in ("<turn>", "<unk>")
    (tmp_path / "tokenizer.json").write_text(json.dumps(definition))
    with pytest.raises(UnsupportedTokenizer, match="'<turn>' that swallows spaces"):
        Tokenizer.load(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text("{}")
    Tokenizer.load(tmp_path)


def test_a_folder_without_tokenizer_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.model").write_bytes(b"")
    with pytest.raises(UnsupportedTokenizer, match=r"no tokenizer\.json"):
        Tokenizer.load(tmp_path)
