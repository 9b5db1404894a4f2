"""The worked figures everyone can check by hand, through the functions decoder and views compute with."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from inference.model import attention, decoder, embedding

FIGURES: dict[str, Any] = json.loads((Path(__file__).parents[1] / "reference" / "article_numbers.json").read_text())


def row(numbers: list[float]) -> Tensor:
    """One vector as the batch of one [1, 1, d] that attention works on."""
    return torch.tensor(numbers)[None, None]


@pytest.mark.parametrize("figure", FIGURES["dot_products"])
def test_dot_product(figure: dict[str, Any]) -> None:
    q, k = row([float(x) for x in figure["q"]]), row([float(x) for x in figure["k"]])
    assert attention.dot_products(q, k).item() == figure["expected"]


def test_scaling() -> None:
    figure = FIGURES["scaling"]
    scaled = attention.scale(torch.tensor(figure["scores"]).float(), math.sqrt(figure["d_k"]))
    assert scaled.tolist() == pytest.approx(figure["expected"], abs=figure["tolerance"])


def test_causal_mask() -> None:
    figure = FIGURES["causal_mask"]
    count = len(figure["tokens"])
    allowed = attention.causal_mask(0, count, count)
    assert [mask.nonzero().flatten().tolist() for mask in allowed] == figure["allowed_keys_per_query"]


def test_attention_softmax() -> None:
    figure = FIGURES["attention_softmax"]
    weights = attention.softmax(torch.tensor(figure["scores"]))
    assert weights.tolist() == pytest.approx(figure["expected"], abs=figure["tolerance"])


def test_weighted_sum() -> None:
    figure = FIGURES["weighted_sum"]
    values = torch.tensor(figure["values"])[None]
    by_hand = figure["with_illustrated_weights"]
    mixed = attention.weighted_sum(row(by_hand["weights"]), values)
    assert mixed.flatten().tolist() == pytest.approx(by_hand["expected"], abs=by_hand["tolerance"])
    exact = figure["with_softmax_weights"]
    weights = attention.softmax(row(FIGURES["attention_softmax"]["scores"]))
    mixed = attention.weighted_sum(weights, values)
    assert mixed.flatten().tolist() == pytest.approx(exact["expected"], abs=exact["tolerance"])


def test_logits_softmax() -> None:
    figure = FIGURES["logits_softmax"]
    probabilities = attention.softmax(torch.tensor(figure["logits"]) / figure["temperature"]).tolist()
    assert probabilities == pytest.approx(figure["expected"], abs=figure["tolerance"])
    # The least likely is smaller than that tolerance: hold it to two digits of its own.
    assert probabilities[-1] == pytest.approx(figure["expected"][-1], rel=0.01)


def test_cosine() -> None:
    figure = FIGURES["cosine"]
    one, other = torch.tensor(figure["a"]).float(), torch.tensor(figure["b"]).float()
    assert attention.dot_products(one[None, None], other[None, None]).item() == figure["dot"]
    assert embedding.cosine(one[None], other).item() == pytest.approx(figure["expected"], abs=figure["tolerance"])


def test_embedding_lookup() -> None:
    figure = FIGURES["embedding_lookup"]
    found = embedding.embedding_lookup(torch.tensor(figure["table"]), torch.tensor([figure["row"]]), 1.0)
    assert found[0].tolist() == pytest.approx(figure["expected"])


def test_the_decoder_computes_with_these_very_functions() -> None:
    assert vars(decoder)["embedding_lookup"] is embedding.embedding_lookup
    assert vars(decoder)["causal_mask"] is attention.causal_mask
    names = attention.Span.attend.__code__.co_names
    assert {"dot_products", "scale", "apply_mask", "softmax", "weighted_sum"} <= set(names)
