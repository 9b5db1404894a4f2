"""The encoder, the committed heads, and the examples with their layer means: computed once for all tests here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from django.conf import settings
from numpy.typing import NDArray

from inference.classifier import Classifier
from inference.encoder import Encoder
from webtrace.safety.dataset import Example, Split, load_examples, split
from webtrace.safety.heads import HEADS
from webtrace.safety.offline import embed_texts


@dataclass(frozen=True)
class Embedded:
    """All examples, how they are split, and the encoder's layer means of each."""

    examples: list[Example]
    parts: Split
    layer_means: NDArray[np.float32]


@pytest.fixture(scope="session")
def encoder() -> Encoder:
    return Encoder.load(Path(settings.ENCODER_PATH))


@pytest.fixture(scope="session")
def classifier() -> Classifier:
    return Classifier.load(HEADS)


@pytest.fixture(scope="session")
def embedded(encoder: Encoder) -> Embedded:
    examples = load_examples()
    means = embed_texts(encoder, [example.text for example in examples])
    return Embedded(examples, split(examples), means)
