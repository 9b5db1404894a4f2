"""Training of the safety heads: logistic regression, thresholds from cross-validation. Needs torch.

Only the training texts are ever looked at here, the held-out fifth serves to measure and nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from inference.classifier import Card, Classifier, Thresholds, features
from webtrace.safety.dataset import HARMFUL, LABELS, Example, Split, digest, folds
from webtrace.safety.evaluation import Evaluation

TECHNIQUE = "multinomial logistic regression over the layer means of all-MiniLM-L6-v2"

# Both chosen by cross-validation on the training texts.
LAYERS = (2, 3, 4, 5, 6)
L2 = 3e-4

FOLD_SEED = 1
MAX_ITERATIONS = 200
CAUTION_RATE, ACT_RATE, TOTAL_ACT_RATE = 0.05, 0.02, 0.01
"""Shares of harmless training texts that may score above a threshold: one in twenty, one in fifty. For the harmful
labels together one in a hundred: that threshold stops answers, and an answer has many windows."""


@dataclass(frozen=True)
class Training:
    """What came out, with its evaluation on training texts it had not seen (cross-validation) and held-out texts."""

    classifier: Classifier
    cross_validated: Evaluation
    held_out: Evaluation


def train(examples: Sequence[Example], parts: Split, layer_means: NDArray[np.float32], encoder_sha256: str) -> Training:
    """Heads from the training texts. `layer_means` [examples, layers + 1, width] by the encoder."""
    inputs = features(layer_means, LAYERS)
    targets = np.array([LABELS.index(example.label) for example in examples])
    unseen = _cross_validated_scores(examples, parts.training, inputs, targets)
    thresholds, total = _calibrate(unseen, targets[parts.training])
    weight, bias = fit(inputs[parts.training], targets[parts.training])
    settings = msgspec.json.encode(
        [digest(examples), encoder_sha256, LAYERS, L2, CAUTION_RATE, ACT_RATE, TOTAL_ACT_RATE]
    )
    card = Card(
        technique=TECHNIQUE,
        version=hashlib.sha256(settings).hexdigest()[:12],
        labels=LABELS,
        layers=LAYERS,
        thresholds=thresholds,
        total=total,
    )
    classifier = Classifier(weight, bias, card)
    return Training(
        classifier=classifier,
        cross_validated=Evaluation.of(LABELS, targets[parts.training], unseen.argmax(axis=1)),
        held_out=evaluate(classifier, examples, parts.held_out, layer_means),
    )


def evaluate(
    classifier: Classifier, examples: Sequence[Example], indexes: Sequence[int], layer_means: NDArray[np.float32]
) -> Evaluation:
    """The heads on these examples; `layer_means` belongs to all examples."""
    labels = classifier.card.labels
    truth = np.array([labels.index(examples[index].label) for index in indexes])
    return Evaluation.of(labels, truth, classifier.scores(layer_means[list(indexes)]).argmax(axis=1))


def fit(inputs: NDArray[np.float32], targets: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Weight [labels, width] and bias [labels] that minimise mean cross-entropy plus `L2` times squared weights.

    Inside, every input is brought to mean 0 and variance 1 (over the width of one layer, so that the sum of squares
    does not grow with it); the result applies to inputs as they are.
    """
    mean = inputs.mean(axis=0)
    deviation = np.maximum(inputs.std(axis=0), 1e-6)  # some of the encoder's units never move
    scale = (deviation * (inputs.shape[1] / len(LAYERS)) ** 0.5).astype(np.float32)
    rows = torch.from_numpy((inputs - mean) / scale)
    wanted = torch.from_numpy(targets)
    weight = torch.zeros(len(LABELS), inputs.shape[1], requires_grad=True)
    bias = torch.zeros(len(LABELS), requires_grad=True)
    optimiser = torch.optim.LBFGS([weight, bias], max_iter=MAX_ITERATIONS, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        value = functional.cross_entropy(functional.linear(rows, weight, bias), wanted) + L2 * weight.square().sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimiser.step(loss)  # type: ignore[no-untyped-call]
    scaled = weight.detach().numpy() / scale
    return scaled.astype(np.float32), (bias.detach().numpy() - scaled @ mean).astype(np.float32)


def _cross_validated_scores(
    examples: Sequence[Example],
    training: Sequence[int],
    inputs: NDArray[np.float32],
    targets: NDArray[np.int64],
) -> NDArray[np.float32]:
    """Scores [training texts, labels], each by heads that had not seen the text nor its pair."""
    rows = {index: row for row, index in enumerate(training)}
    scores = np.empty((len(training), len(LABELS)), dtype=np.float32)
    for part in folds(examples, training, FOLD_SEED):
        rest = sorted(set(training) - set(part))
        weight, bias = fit(inputs[rest], targets[rest])
        logits = torch.from_numpy(inputs[part] @ weight.T + bias)
        scores[[rows[index] for index in part]] = functional.softmax(logits, dim=1).numpy()
    return scores


def _calibrate(scores: NDArray[np.float32], targets: NDArray[np.int64]) -> tuple[dict[str, Thresholds], Thresholds]:
    """Thresholds of each harmful label and of their sum, set by how many harmless texts reach them."""
    columns = [LABELS.index(label) for label in HARMFUL]
    harmless = scores[~np.isin(targets, columns)]
    per_label = {
        label: _thresholds(harmless[:, column], ACT_RATE) for label, column in zip(HARMFUL, columns, strict=True)
    }
    return per_label, _thresholds(harmless[:, columns].sum(axis=1), TOTAL_ACT_RATE)


def _thresholds(harmless: NDArray[np.float32], act_rate: float) -> Thresholds:
    caution, act = np.quantile(harmless, [1 - CAUTION_RATE, 1 - act_rate])
    return Thresholds(caution=round(float(caution), 4), act=round(float(act), 4))
