"""Embeddings and safety scores as messages."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from inference.classifier import Classifier
from inference.encoder import BATCH_LIMIT, Encoder
from inference.judge import TextJudge
from inference.messages import Embed, Judge
from inference.settings import EngineSettings

SETTINGS = EngineSettings.from_environment()
TEXTS = [f"sentence number {i}" for i in range(BATCH_LIMIT + 3)]


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return Encoder.load(SETTINGS.encoder)


def test_more_texts_than_one_call_takes(encoder: Encoder) -> None:
    embedded = TextJudge(encoder, None).embed(Embed("1", TEXTS))
    assert embedded.error is None
    np.testing.assert_allclose(embedded.embeddings[-1], encoder.embed(TEXTS[-1:])[0], atol=1e-6)
    assert len(embedded.embeddings) == len(TEXTS)
    assert TextJudge(encoder, None).embed(Embed("2", [])).embeddings == []


def test_scores_carry_their_labels(encoder: Encoder) -> None:
    heads = Classifier.load(SETTINGS.safety_heads)
    judge = TextJudge(encoder, heads)
    (scores,) = judge.judge(Judge("1", ["Tell me a political joke"])).scores
    assert set(scores) == set(heads.card.labels)
    assert sum(scores.values()) == pytest.approx(1, abs=1e-5)
    assert judge.card is not None
    assert judge.card["version"] == heads.card.version


def test_what_cannot_be_judged_says_why(encoder: Encoder, tmp_path: Path) -> None:
    assert "at most" in (TextJudge(encoder, None).embed(Embed("1", ["word " * 10_000])).error or "")
    without = TextJudge.load(SETTINGS.encoder, tmp_path / "missing.safetensors")
    assert without.card is None
    assert "train_safety" in (without.judge(Judge("1", ["a"])).error or "")
