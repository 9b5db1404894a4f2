"""Layer means of many texts at once: for training and evaluation, never for a request. Needs torch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from inference.encoder import BATCH_LIMIT, Encoder


def embed_texts(encoder: Encoder, texts: Sequence[str]) -> NDArray[np.float32]:
    """`Encoder.layer_means` for any number of texts: [texts, layers + 1, width]"""
    batches = [encoder.layer_means(texts[at : at + BATCH_LIMIT]) for at in range(0, len(texts), BATCH_LIMIT)]
    return np.concatenate(batches)
