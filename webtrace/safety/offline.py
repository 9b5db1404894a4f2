"""Many texts at once, without an engine: for training and evaluation, never for a request. Needs torch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from inference.classifier import Classifier
from inference.encoder import BATCH_LIMIT, Encoder
from webtrace.safety.decisions import Judgement, judge_input, judge_output
from webtrace.safety.passages import Scored, passages


def embed_texts(encoder: Encoder, texts: Sequence[str]) -> NDArray[np.float32]:
    """`Encoder.layer_means` for any number of texts (at least one): [texts, layers + 1, width]"""
    batches = [encoder.layer_means(texts[at : at + BATCH_LIMIT]) for at in range(0, len(texts), BATCH_LIMIT)]
    return np.concatenate(batches)


def judge_inputs(encoder: Encoder, classifier: Classifier, texts: Sequence[str]) -> list[Judgement]:
    """What the service would decide about each of these messages."""
    return [judge_input(text, _scored(encoder, classifier, text), classifier.card) for text in texts]


def judge_outputs(encoder: Encoder, classifier: Classifier, texts: Sequence[str]) -> list[Judgement]:
    """What the service would decide about each of these answers, were it the first window."""
    return [judge_output(text, _scored(encoder, classifier, text), classifier.card) for text in texts]


def _scored(encoder: Encoder, classifier: Classifier, text: str) -> list[Scored]:
    parts = passages(text)
    return [*map(Scored, parts, classifier.named_scores(embed_texts(encoder, parts)))] if parts else []
