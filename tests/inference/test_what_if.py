"""A step asked again: with the response's own settings it is itself, with others what they would have drawn."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pytest

from inference.cache import KVCache, ResidualPool
from inference.engine import Engine
from inference.messages import Generate, Sampling, Step
from inference.parameters import CHOICE
from inference.query import QueryError, parse_query
from inference.sampling import uniform
from inference.text import Tokenizer
from inference.views import VIEWS, Trace, View
from tests.inference.conftest import DATA, MODEL
from tests.inference.test_parity import CASES
from tests.inference.tiny import run

PROMPT: list[int] = CASES[0]["token_ids"]
OWN = Sampling(
    logit_bias={260: 2.0},
    repetition_penalty=1.1,
    presence_penalty=0.2,
    frequency_penalty=0.3,
    temperature=1.3,
    top_k=40,
    top_p=0.9,
    min_p=0.01,
    seed=2**60 + 1,
    max_tokens=8,
)
OFF: dict[str, Any] = {
    "logit_bias": {}, "repetition_penalty": 1, "presence_penalty": 0, "frequency_penalty": 0,
    "top_k": 0, "top_p": 1, "min_p": 0,
}  # fmt: skip
COLUMNS = {"logits": "logit", "raw_probabilities": "raw_probability", "probabilities": "probability"}


@dataclass
class Answer:
    """What the engine said of every step, and the view of the same recording."""

    steps: list[Step]
    trace: Trace

    def what_if(self, step: int, **changed: Any) -> View:
        own = {name: getattr(OWN, name) for name in CHOICE}
        return VIEWS["what_if"](self.trace, parse_query("what_if", own | changed | {"step": step}))


@pytest.fixture(scope="module", params=["float32", "int4"])
def answer(request: pytest.FixtureRequest) -> Answer:
    decoder = request.getfixturevalue(f"decoder_{request.param}")
    cache, residuals = KVCache(decoder.config, 2), ResidualPool(decoder.config, 2)
    engine = Engine(decoder, Tokenizer.load(DATA / "models" / MODEL, DATA / "cache"), cache, residuals)
    engine.submit(Generate("a", PROMPT, OWN, [], "o", record=True))
    steps = run(engine)["a"].steps
    sequence = engine.scheduler.find("a")
    assert sequence is not None
    return Answer(steps, Trace(decoder, cache, residuals, sequence.blocks, sequence.token_ids, len(PROMPT)))


def test_with_its_own_settings_a_step_is_itself(answer: Answer) -> None:
    assert len(answer.steps) == 8
    for step in answer.steps:
        view = answer.what_if(step.step)
        info, tolerance = view.info, view.info["exactness"]["tolerance"]
        assert (info["token"], info["rank"]) == (step.token, step.rank)
        recorded = json.loads(msgspec.json.encode(step.ledger))
        for mine, theirs in zip(info["ledger"]["filters"], recorded["filters"], strict=True):
            assert mine.pop("removed_mass") == pytest.approx(theirs.pop("removed_mass"), abs=tolerance)
        assert info["ledger"] == recorded
        assert info["candidate_ids"] == [row.id for row in step.candidates]
        for name, tensor in view.tensors.items():
            expected = [getattr(row, COLUMNS[name]) for row in step.candidates]
            np.testing.assert_allclose(tensor, expected, rtol=1e-5, atol=tolerance)
        for name in ("raw_logprob", "logprob", "entropy"):
            assert info[name] == pytest.approx(getattr(step, name), abs=5 * tolerance)


def test_other_settings_choose_among_the_same_logits(answer: Answer) -> None:
    recorded = answer.steps[3]
    plain = answer.what_if(3, **OFF, temperature=0.5, seed=11)
    logits, raw = plain.tensors["logits"].astype(float), plain.tensors["raw_probabilities"].astype(float)
    assert logits.tolist() == pytest.approx([row.logit for row in recorded.candidates][: len(logits)], abs=1e-3)
    assert [one["num_survivors"] for one in plain.info["ledger"]["filters"]] == [49152] * 6
    assert plain.info["ledger"]["draw"] == uniform(Sampling(seed=11), 3)
    proportions = np.exp((logits - logits[0]) / 0.5)
    shares = plain.tensors["probabilities"]
    assert shares[1:] / shares[0] == pytest.approx(proportions[1:], rel=1e-4)
    assert raw[1:] / raw[0] == pytest.approx(np.exp(logits - logits[0])[1:], rel=1e-4)

    greedy = answer.what_if(3, **OFF, temperature=0)
    assert (greedy.info["ledger"]["greedy"], greedy.info["ledger"]["draw"]) == (True, None)
    assert greedy.info["token"] == greedy.info["candidate_ids"][0]

    three = answer.what_if(3, **OFF | {"top_k": 3})
    filters = {one["name"]: one["num_survivors"] for one in three.info["ledger"]["filters"]}
    assert filters["top_k"] == filters["min_p"] == 3
    assert np.count_nonzero(three.tensors["probabilities"]) == 3
    assert three.info["token"] in three.info["candidate_ids"][:3]


def test_seeds_draw_different_tokens(answer: Answer) -> None:
    drawn = {answer.what_if(1, temperature=2, top_p=1, min_p=0, seed=seed).info["token"] for seed in range(8)}
    assert len(drawn) > 1


@pytest.mark.parametrize(("step", "share"), [(0, 1.0), (1, math.exp(-2))])
def test_penalties_look_at_the_answer_before_the_step_alone(answer: Answer, step: int, share: float) -> None:
    """A bias lifts the answer's first token to the best one's logit; from step 1 on, the penalty lowers it again."""
    first = answer.steps[0].token
    found = VIEWS["probabilities"](answer.trace, parse_query("probabilities", {"step": step})).info
    logit = VIEWS["logits"](answer.trace, parse_query("logits", {"step": step, "token": first})).info["token_logit"]
    bias = found["largest_logit"] - logit
    changed = {**OFF, "temperature": 1, "logit_bias": {first: bias}, "presence_penalty": 2}
    view = answer.what_if(step, **changed)
    total = found["exponential_sum"] - math.exp(-bias) + share
    assert first != view.info["candidate_ids"][0] or step == 0
    assert view.tensors["probabilities"][0] == pytest.approx(1 / total, rel=1e-4)


@pytest.mark.parametrize(
    ("field", "value", "limit"),
    [
        ("temperature", -1, "at least 1e-05"),
        ("temperature", "warm", "a number"),
        ("top_k", -1, "at least 0"),
        ("top_k", 1.5, "a whole number"),
        ("top_p", 0, "above 0 and at most 1"),
        ("min_p", 1.01, "between 0 and 1"),
        ("repetition_penalty", 0, "between 0.01 and 100"),
        ("presence_penalty", 2.5, "between -2 and 2"),
        ("frequency_penalty", -3, "between -2 and 2"),
        ("seed", -1, "between 0 and 9223372036854775807"),
        ("logit_bias", 3, "for each of some token ids"),
        ("logit_bias", {"49152": 1.0}, "0 to 49151"),
    ],
)
def test_a_setting_out_of_range_names_field_and_limit(answer: Answer, field: str, value: Any, limit: str) -> None:
    with pytest.raises(QueryError, match=limit) as raised:
        answer.what_if(0, **{field: value})
    assert raised.value.field == field


def test_positions_that_chose_no_token_are_refused(answer: Answer) -> None:
    with pytest.raises(QueryError, match=f"at least {len(PROMPT) - 1}") as raised:
        VIEWS["what_if"](answer.trace, parse_query("what_if", {"position": len(PROMPT) - 2}))
    assert raised.value.field == "position"
