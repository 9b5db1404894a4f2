"""The encoder, the committed heads, and the examples with their layer means: computed once for all tests here."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from inference.classifier import Classifier
from inference.encoder import Encoder
from inference.settings import EngineSettings
from webtrace.safety.dataset import Example, Split, load_examples, split
from webtrace.safety.offline import embed_texts


@dataclass(frozen=True)
class Embedded:
    """All examples, how they are split, and the encoder's layer means of each."""

    examples: list[Example]
    parts: Split
    layer_means: NDArray[np.float32]


@pytest.fixture(scope="session")
def encoder() -> Encoder:
    return Encoder.load(EngineSettings.from_environment().encoder)


@pytest.fixture(scope="session")
def classifier() -> Classifier:
    return Classifier.load(EngineSettings.from_environment({}).safety_heads)


@pytest.fixture(scope="session")
def embedded(encoder: Encoder) -> Embedded:
    examples = load_examples()
    means = embed_texts(encoder, [example.text for example in examples])
    return Embedded(examples, split(examples), means)
