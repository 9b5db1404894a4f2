"""The decoder against an independent implementation on the same weights (tests/reference/reference.json)."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from inference.checkpoint import Checkpoint
from inference.model.decoder import Decoder
from tests.inference.sequences import new_sequence

REFERENCE: dict[str, Any] = json.loads((Path(__file__).parents[1] / "reference" / "reference.json").read_text())
CASES = REFERENCE["cases"]
END = 2


class LastRows:
    """Keeps the weights of the last query of every layer: a capture inside the running attention."""

    def __init__(self) -> None:
        self.rows: dict[int, Tensor] = {}

    def weights(self, layer: int, start: int, weights: Tensor) -> None:
        self.rows[layer] = weights[:, -1].clone()


def test_checkpoint_is_the_reference_one(checkpoint: Checkpoint) -> None:
    assert checkpoint.sha256 == REFERENCE["sha256"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_float32_agrees_with_the_reference(decoder_float32: Decoder, case: dict[str, Any]) -> None:
    sequence = new_sequence(decoder_float32)
    captured = LastRows()
    logits = sequence.feed(case["token_ids"], capture=captured)

    top = logits.topk(10)
    assert top.indices.tolist() == case["top10"]["ids"]
    assert top.values.tolist() == pytest.approx(case["top10"]["logits"], abs=5e-4)

    for name, expected in case["attention_last_row_last_16_keys"].items():
        layer, head = map(int, name.split("."))
        assert captured.rows[layer][head, -16:].tolist() == pytest.approx(expected, abs=1e-4)

    last = sequence.residuals.rows[:, len(case["token_ids"]) - 1]
    norms = [*last[:-1].norm(dim=-1).tolist(), float(decoder_float32.final_norm(last[-1]).norm())]
    assert norms == pytest.approx(case["hidden_state_norms_last_position"], rel=1e-3)

    assert sequence.greedy(logits, len(case["greedy_32"]), END) == case["greedy_32"]


def test_int4_stays_close_to_float32(decoder_float32: Decoder, decoder_int4: Decoder) -> None:
    """Kullback-Leibler divergence: at the end of every prompt, and on average along the reference answers."""
    along_answers: list[float] = []
    for case in CASES:
        exact, packed = (teacher_forced(decoder, case) for decoder in (decoder_float32, decoder_int4))
        at_prompt, *after = map(divergence, exact, packed)
        assert at_prompt <= 0.01, case["name"]
        along_answers += after
    assert len(along_answers) == sum(len(case["greedy_32"]) - 1 for case in CASES)
    assert math.fsum(along_answers) / len(along_answers) <= 0.01


@pytest.mark.native
def test_native_is_float32_to_four_digits(decoder_float32: Decoder, decoder_native: Decoder) -> None:
    for case in CASES:
        exact, packed = (teacher_forced(decoder, case) for decoder in (decoder_float32, decoder_native))
        assert max(map(divergence, exact, packed)) <= 1e-5, case["name"]
        assert torch.equal(packed.argmax(1), exact.argmax(1)), case["name"]
        assert float((packed - exact).abs().max()) < 0.02, case["name"]


def teacher_forced(decoder: Decoder, case: dict[str, Any]) -> Tensor:
    """Logits from the end of the prompt on, given the reference's answer: [answer tokens, vocabulary]."""
    sequence = new_sequence(decoder)
    tokens = case["token_ids"] + case["greedy_32"][:-1]
    sequence.feed(tokens)
    return decoder.logits(sequence.residuals.rows[-1, len(case["token_ids"]) - 1 : len(tokens)])


def divergence(exact: Tensor, other: Tensor) -> float:
    """Sum over the vocabulary of p log(p / q), in nats."""
    p, q = exact.double().log_softmax(0), other.double().log_softmax(0)
    return float(torch.sum(p.exp() * (p - q)))
