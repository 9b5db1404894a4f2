"""Safety heads: a softmax over labels, computed from the encoder's mean states. No torch here.

The scores are one matrix product over the states of several layers (`Encoder.layer_means`). What the heads are
called, which version they are and where their thresholds lie stands on a card inside the same file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file


class Thresholds(msgspec.Struct, frozen=True):
    """Scores from which to be careful and from which to act, 0 to 1."""

    caution: float
    act: float


class Card(msgspec.Struct, frozen=True):
    """What a reader of the scores needs to know. Labels with thresholds are the harmful ones.

    `layers` are the encoder's layers whose means the heads read; `total` applies to the sum of all harmful labels.
    """

    technique: str
    version: str
    labels: tuple[str, ...]
    layers: tuple[int, ...]
    thresholds: dict[str, Thresholds]
    total: Thresholds


class UnreadableHeads(ValueError):
    """The file holds no safety heads that this code can use."""


@dataclass(frozen=True)
class Classifier:
    """Weights [labels, len(layers) * width] and bias [labels], with their card."""

    weight: NDArray[np.float32]
    bias: NDArray[np.float32]
    card: Card

    @classmethod
    def load(cls, path: Path) -> Classifier:
        """Reads a file that `save` wrote. OSError when it is missing, UnreadableHeads when it is something else."""
        card = read_card(path)
        with safe_open(path, framework="numpy") as file:
            weight, bias = file.get_tensor("weight"), file.get_tensor("bias")
        if weight.shape[0] != len(card.labels) or bias.shape != (len(card.labels),):
            raise UnreadableHeads(f"{path}: {weight.shape[0]} heads for {len(card.labels)} labels")
        return cls(weight, bias, card)

    def save(self, path: Path) -> None:
        metadata = {"card": msgspec.json.encode(self.card).decode()}
        save_file({"weight": self.weight, "bias": self.bias}, path, metadata=metadata)

    def scores(self, layer_means: NDArray[np.float32]) -> NDArray[np.float32]:
        """Probabilities [texts, labels], each row summing to 1, from `Encoder.layer_means` of the texts."""
        return softmax(features(layer_means, self.card.layers) @ self.weight.T + self.bias)

    def named_scores(self, layer_means: NDArray[np.float32]) -> list[dict[str, float]]:
        """The same as one dictionary for each text, as they travel to the worker."""
        return [dict(zip(self.card.labels, row, strict=True)) for row in self.scores(layer_means).tolist()]


def read_card(path: Path) -> Card:
    """Only the card of a file of heads. Errors as in `Classifier.load`."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: `manage.py train_safety` makes it")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
        return msgspec.json.decode(metadata["card"], type=Card)
    except (SafetensorError, KeyError, msgspec.DecodeError) as error:
        raise UnreadableHeads(f"{path} holds no safety heads: {error}") from error


def features(layer_means: NDArray[np.float32], layers: Sequence[int]) -> NDArray[np.float32]:
    """The chosen layers side by side: [texts, layers + 1, width] → [texts, len(layers) * width]"""
    return layer_means[:, list(layers)].reshape(len(layer_means), -1)


def softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """Row by row: [texts, labels] → the same shape"""
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities: NDArray[np.float32] = exponentials / exponentials.sum(axis=1, keepdims=True)
    return probabilities
