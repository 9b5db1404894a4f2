"""Sentence embeddings and safety scores as messages, computed between the steps of generation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from inference.classifier import Classifier
from inference.encoder import BATCH_LIMIT, Encoder, sentence_vectors
from inference.messages import Embed, Embedded, Judge, Judged


class TextJudge:
    """Encoder and safety heads. `heads` None scores nothing."""

    def __init__(self, encoder: Encoder, heads: Classifier | None) -> None:
        self._encoder = encoder
        self._heads = heads

    @classmethod
    def load(cls, encoder: Path, heads: Path) -> TextJudge:
        """Raises FileNotFoundError without an encoder; a missing file of heads only means no scores."""
        return cls(Encoder.load(encoder), Classifier.load(heads) if heads.is_file() else None)

    @property
    def card(self) -> dict[str, Any] | None:
        """Labels, thresholds, technique and version of the heads."""
        return None if self._heads is None else msgspec.to_builtins(self._heads.card)

    def embed(self, request: Embed) -> Embedded:
        try:
            vectors = sentence_vectors(self._layer_means(request.texts)) if request.texts else np.empty((0, 0))
        except ValueError as error:
            return Embedded(request.request_id, [], str(error))
        return Embedded(request.request_id, vectors.tolist())

    def judge(self, request: Judge) -> Judged:
        if self._heads is None:
            return Judged(request.request_id, [], "No safety heads are loaded: `manage.py train_safety` makes them.")
        try:
            scores = self._heads.named_scores(self._layer_means(request.texts)) if request.texts else []
        except ValueError as error:
            return Judged(request.request_id, [], str(error))
        return Judged(request.request_id, scores)

    def _layer_means(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """[texts, layers + 1, width], in as many calls as the encoder's limit asks for."""
        parts = [texts[at : at + BATCH_LIMIT] for at in range(0, len(texts), BATCH_LIMIT)]
        return np.concatenate([self._encoder.layer_means(part) for part in parts])
