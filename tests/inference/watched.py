"""A prompt and a few decoded tokens, watched from inside while the model runs: what every view is compared with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from inference.model.decoder import Decoder
from inference.query import Query
from inference.views import VIEWS, Trace, View
from tests.inference.sequences import new_sequence
from tests.inference.test_parity import CASES

CASE = CASES[0]
PROMPT: list[int] = CASE["token_ids"]
LAST = len(PROMPT) - 1
STEPS = 6
PRODUCTS = ("attention.qkv", "attention.output", "feed_forward.gate_up", "feed_forward.down")


@dataclass
class Product:
    """What one matrix was given and gave, [positions, width] each."""

    given: Tensor
    gave: Tensor


@dataclass
class Run:
    """What the run computed, and its recording."""

    trace: Trace
    weights: dict[tuple[int, int], Tensor]
    """(layer, position) -> [heads, keys]"""
    logits: list[Tensor]
    products: dict[tuple[int, str], Product]

    def view(self, slug: str, **fields: Any) -> View:
        return VIEWS[slug](self.trace, Query(**fields))


class Weights:
    """The attention weights inside the running attention."""

    def __init__(self) -> None:
        self.rows: dict[tuple[int, int], Tensor] = {}

    def weights(self, layer: int, start: int, weights: Tensor) -> None:
        for offset in range(weights.shape[1]):
            self.rows[layer, start + offset] = weights[:, offset].clone()


def watched_run(decoder: Decoder, prompt: list[int] = PROMPT) -> Run:
    weights, sequence = Weights(), new_sequence(decoder, blocks=[1, 0, 2], num_blocks=3)
    with _watching(decoder) as passes:
        logits = [sequence.feed(prompt, weights)]
        for _ in range(STEPS):
            logits.append(sequence.feed([int(logits[-1].argmax())], weights))
    tokens = [*sequence.token_ids, int(logits[-1].argmax())]
    trace = Trace(decoder, sequence.cache, sequence.residuals, sequence.blocks, tokens, len(prompt))
    products = {key: Product(*map(torch.cat, zip(*rows, strict=True))) for key, rows in passes.items()}
    return Run(trace, weights.rows, logits, products)


@contextmanager
def _watching(decoder: Decoder) -> Iterator[dict[tuple[int, str], list[tuple[Tensor, Tensor]]]]:
    """Every product of every layer, pass by pass."""
    passes: dict[tuple[int, str], list[tuple[Tensor, Tensor]]] = {}
    with changed_products(
        decoder, lambda layer, name, product: _watched(product, passes.setdefault((layer, name), []))
    ):
        yield passes


def _watched(product: Callable[[Tensor], Tensor], rows: list[tuple[Tensor, Tensor]]) -> Callable[[Tensor], Tensor]:
    def call(given: Tensor) -> Tensor:
        gave = product(given)
        rows.append((given.float().clone(), gave.float().clone()))
        return gave

    return call


Change = Callable[[int, str, Callable[[Tensor], Tensor]], Callable[[Tensor], Tensor]]


@contextmanager
def changed_products(decoder: Decoder, change: Change) -> Iterator[None]:
    """For a while, every product of every layer is `change(layer, name, product)`."""
    kept = []
    for number, layer in enumerate(decoder.layers):
        for name in PRODUCTS:
            block, attribute = name.split(".")
            owner = getattr(layer, block)
            product = getattr(owner, attribute)
            kept.append((owner, attribute, product))
            setattr(owner, attribute, change(number, name, product))
    try:
        yield
    finally:
        for owner, attribute, product in kept:
            setattr(owner, attribute, product)
