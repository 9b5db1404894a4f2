"""The safety heads' file and arithmetic."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from inference.classifier import Card, Classifier, Thresholds, UnreadableHeads, features, read_card

CARD = Card(
    technique="a test",
    version="1",
    labels=("calm", "angry"),
    layers=(0, 2),
    thresholds={"angry": Thresholds(caution=0.4, act=0.6)},
    total=Thresholds(caution=0.4, act=0.6),
)
WEIGHT = np.array([[1, 0, 0, 0], [0, 0, 0, 2]], dtype=np.float32)
BIAS = np.array([0, -1], dtype=np.float32)
# Two texts, three layers, width two.
MEANS = np.array([[[1, 9], [9, 9], [9, 1]], [[0, 9], [9, 9], [9, 3]]], dtype=np.float32)


def test_scores_are_a_softmax_over_the_chosen_layers() -> None:
    np.testing.assert_array_equal(features(MEANS, CARD.layers), [[1, 9, 9, 1], [0, 9, 9, 3]])
    scores = Classifier(WEIGHT, BIAS, CARD).scores(MEANS)
    # Logits by hand: [1, 2·1 − 1] and [0, 2·3 − 1].
    np.testing.assert_allclose(scores, [[0.5, 0.5], [1 / (1 + np.e**5), np.e**5 / (1 + np.e**5)]], rtol=1e-5)


def test_scores_are_named_and_survive_large_logits() -> None:
    scores = Classifier(WEIGHT * 1000, BIAS, CARD).named_scores(MEANS)
    assert [set(row) for row in scores] == [{"calm", "angry"}] * 2
    assert scores[1]["angry"] == 1
    assert all(type(value) is float for row in scores for value in row.values())


def test_a_file_gives_back_what_was_saved(tmp_path: Path) -> None:
    path = tmp_path / "heads.safetensors"
    Classifier(WEIGHT, BIAS, CARD).save(path)
    loaded = Classifier.load(path)
    assert loaded.card == read_card(path) == CARD
    np.testing.assert_array_equal(loaded.scores(MEANS), Classifier(WEIGHT, BIAS, CARD).scores(MEANS))


def test_a_file_that_is_missing_or_something_else_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.safetensors is missing"):
        Classifier.load(tmp_path / "none.safetensors")
    (tmp_path / "text").write_text("not a tensor in sight")
    with pytest.raises(UnreadableHeads, match="holds no safety heads"):
        Classifier.load(tmp_path / "text")
    save_file({"weight": WEIGHT}, tmp_path / "other.safetensors")
    with pytest.raises(UnreadableHeads, match="card"):
        Classifier.load(tmp_path / "other.safetensors")
    Classifier(WEIGHT[:1], BIAS, CARD).save(tmp_path / "short.safetensors")
    with pytest.raises(UnreadableHeads, match="1 heads for 2 labels"):
        Classifier.load(tmp_path / "short.safetensors")


def test_scoring_and_deciding_do_not_import_torch() -> None:
    """The worker reads cards and decides; torch belongs to the engine."""
    code = (
        "import sys, inference.classifier, webtrace.safety.decisions, webtrace.safety.passages; "
        "sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, cwd=Path(__file__).parents[2])
