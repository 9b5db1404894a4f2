"""The sentence encoder against the reference implementation on the same weights."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from tokenizers import Tokenizer
from transformers import BertConfig, BertModel

from inference.encoder import BATCH_LIMIT, MAX_WINDOWS, WINDOW_TOKENS, Encoder, sentence_vectors

FOLDER = Path(os.environ.get("WEBTRACE_DATA", Path(__file__).parents[2] / "data")) / "models" / "all-MiniLM-L6-v2"

TEXTS = [
    "Tell me a political joke",
    "",
    "How do I kill a Python process that ignores Ctrl-C?",
    "한국어와 👩‍👩‍👧 und Größe\n\tüber zwei Zeilen",
    "a [SEP] b [CLS] c",
    "The committee met again on Tuesday. " * 20,
]


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return Encoder.load(FOLDER)


@pytest.fixture(scope="module")
def reference() -> BertModel:
    config = BertConfig(
        vocab_size=30522,
        hidden_size=384,
        num_hidden_layers=6,
        num_attention_heads=12,
        intermediate_size=1536,
        max_position_embeddings=512,
        layer_norm_eps=1e-12,
        hidden_act="gelu",
    )
    model = BertModel(config, add_pooling_layer=False).eval()
    tensors = load_file(FOLDER / "model.safetensors")
    missing, unexpected = model.load_state_dict(tensors, strict=False)
    assert not missing
    assert all(name.startswith("pooler.") or name.endswith("position_ids") for name in unexpected)
    return model


def reference_states(reference: BertModel, text: str) -> list[torch.Tensor]:
    """Final states of each window of a text, by the reference model."""
    tokenizer = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    room = WINDOW_TOKENS - 2
    windows = [ids[at : at + room] for at in range(0, max(len(ids), 1), room)]
    with torch.inference_mode():
        return [reference(input_ids=torch.tensor([[101, *window, 102]])).last_hidden_state[0] for window in windows]


def unit(vector: torch.Tensor) -> NDArray[np.float32]:
    return np.asarray((vector / vector.norm()).numpy(), dtype=np.float32)


def test_vectors_equal_the_reference(encoder: Encoder, reference: BertModel) -> None:
    expected = np.stack([unit(torch.cat(reference_states(reference, text)).mean(dim=0)) for text in TEXTS])
    vectors = encoder.embed(TEXTS)
    assert vectors.shape == (len(TEXTS), 384)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, expected, atol=1e-4)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_a_long_text_is_read_in_windows(encoder: Encoder, reference: BertModel) -> None:
    text = "The river rose, the bridge held. " * 60 + "Nobody slept."
    states = reference_states(reference, text)
    assert len(states) > 1
    np.testing.assert_allclose(encoder.embed([text])[0], unit(torch.cat(states).mean(dim=0)), atol=1e-4)


def test_a_vector_does_not_depend_on_its_neighbours(encoder: Encoder) -> None:
    together = encoder.embed(TEXTS)
    for index, text in enumerate(TEXTS):
        assert np.array_equal(encoder.embed([text])[0], together[index])


def test_typed_control_tokens_stay_text(encoder: Encoder) -> None:
    plain, typed = encoder.embed(["hello there", "hello there [SEP]"])
    assert not np.allclose(plain, typed, atol=1e-3)
    windows = encoder._windows(0, "hello there [SEP]")
    assert windows[0].count(102) == 1


def test_related_texts_are_closer_than_unrelated_ones(encoder: Encoder) -> None:
    cat, kitten, tax = encoder.embed(["The cat sleeps.", "A kitten is napping.", "Taxes are due in April."])
    assert cat @ kitten > cat @ tax + 0.3


def test_limits_are_named(encoder: Encoder) -> None:
    with pytest.raises(ValueError, match=f"texts: {BATCH_LIMIT + 1} given, at most {BATCH_LIMIT}"):
        encoder.embed(["x"] * (BATCH_LIMIT + 1))
    too_long = "word " * (MAX_WINDOWS * (WINDOW_TOKENS - 2) + 1)
    with pytest.raises(ValueError, match=r"texts\[1\]: 2033 tokens, at most 2032"):
        encoder.embed(["fine", too_long])


def test_layer_means_equal_the_reference(encoder: Encoder, reference: BertModel) -> None:
    ids = encoder._windows(0, TEXTS[0])[0]
    with torch.inference_mode():
        states = reference(input_ids=torch.tensor([ids]), output_hidden_states=True).hidden_states
    expected = np.stack([layer[0].mean(dim=0).numpy() for layer in states])
    means = encoder.layer_means([TEXTS[0]])
    assert means.shape == (1, 7, 384)
    np.testing.assert_allclose(means[0], expected, atol=1e-4)
    np.testing.assert_array_equal(sentence_vectors(means), encoder.embed([TEXTS[0]]))
    assert encoder.embed([]).shape == (0, 384)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"tokenizer\.json is missing"):
        Encoder.load(tmp_path)
