"""One step of training: the same logits as the decoder's, gradients that differences confirm, a smaller loss."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from inference.checkpoint import Checkpoint, ModelConfig
from inference.training import logits, train_once
from tests.inference.sequences import new_sequence
from tests.inference.tiny import CONFIG, RandomWeights, decoder_of

TOKENS, TARGET = (5, 70, 3, 129), 40
CONFIGS = {
    "llama": CONFIG,
    "qwen3": replace(CONFIG, query_key_norm=True, tied_head=False),
    "biased": replace(CONFIG, qkv_bias=True, n_kv_heads=2),
    "gemma": replace(CONFIG, post_norm=True, activation="gelu_tanh", embedding_multiplier=4.0),
}


def checkpoint_of(config: ModelConfig) -> Checkpoint:
    return Checkpoint(path=Path("tiny"), name="tiny", config=config, source=RandomWeights(config))


def weights_of(config: ModelConfig) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(checkpoint_of(config).tensor(name)) for name in config.tensor_shapes()}


@pytest.mark.parametrize("name", CONFIGS)
def test_the_copy_computes_what_the_decoder_computes(name: str) -> None:
    config = CONFIGS[name]
    expected = new_sequence(decoder_of(config)).feed(TOKENS)
    assert torch.allclose(logits(config, weights_of(config), TOKENS), expected, atol=1e-4)


@pytest.fixture(scope="module")
def lesson() -> dict[str, Any]:
    return train_once(checkpoint_of(CONFIG), TOKENS, TARGET, rate=1e-3)


def loss_of(weights: dict[str, torch.Tensor]) -> float:
    row = logits(CONFIG, weights, TOKENS).double()
    return float(torch.logsumexp(row, 0) - row[TARGET])


def test_the_loss_is_that_of_the_target_and_one_step_makes_it_smaller(lesson: dict[str, Any]) -> None:
    assert lesson["loss_before"] == pytest.approx(loss_of(weights_of(CONFIG)), rel=1e-5)
    # A small step lowers the loss by about rate times the square of the gradient's length.
    expected = lesson["loss_before"] - 1e-3 * lesson["gradient"] ** 2
    assert lesson["loss_after"] == pytest.approx(expected, abs=0.2 * (lesson["loss_before"] - expected))


def test_a_layers_gradient_is_what_moving_its_weights_does_to_the_loss(lesson: dict[str, Any]) -> None:
    names, squares = ("layers.1.gate", "layers.1.up", "layers.1.down"), 0.0
    for name in names:
        weights = {one: weight.double() for one, weight in weights_of(CONFIG).items()}
        for index in range(weights[name].numel()):
            flat, step = weights[name].view(-1), 1e-4
            kept = float(flat[index])
            flat[index] = kept + step
            above = loss_of(weights)
            flat[index] = kept - step
            below = loss_of(weights)
            flat[index] = kept
            squares += ((above - below) / (2 * step)) ** 2
    assert lesson["gradients"]["feed_forward"][1] == pytest.approx(math.sqrt(squares), rel=1e-3)
