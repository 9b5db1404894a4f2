"""The sampler: filters against a plain float64 account of them, edges, the ledger, reproducible draws."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from inference.messages import Sampling
from inference.parameters import validate
from inference.sampling import HEAD, NonFiniteLogits, Sampled, sample, uniform

VOCABULARY = 4000  # more than HEAD, so that both ways of sorting are used
OFF = Sampling(temperature=1, top_k=0, top_p=1, min_p=0, seed=7)


def logits_of(seed: int, spread: float = 3.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(VOCABULARY, generator=generator) * spread


def setting(**changes: Any) -> Sampling:
    return msgspec.structs.replace(OFF, **changes)


def plain_distribution(logits: torch.Tensor, sampling: Sampling) -> np.ndarray:
    """The distribution after all filters, written as simply as possible: sort everything, cut, renormalise."""
    x = logits.double().numpy() / sampling.temperature
    p = np.exp(x - x.max())
    order = np.argsort(-p, kind="stable")
    p = p[order] / p.sum()
    if 0 < sampling.top_k < len(p):
        p[sampling.top_k :] = 0
        p /= p.sum()
    p[np.cumsum(p) - p >= sampling.top_p] = 0
    p /= p.sum()
    p[p < sampling.min_p * p[0]] = 0
    p /= p.sum()
    result = np.zeros(len(p))
    result[order] = p
    return result


settings = st.builds(
    setting,
    temperature=st.sampled_from([1e-4, 0.3, 1.0, 2.0, 50.0]),
    top_k=st.sampled_from([0, 1, 3, 50, HEAD + 1, VOCABULARY, VOCABULARY + 1]),
    top_p=st.sampled_from([1e-4, 0.5, 0.95, 0.9999, 1.0]),
    min_p=st.sampled_from([0.0, 1e-6, 0.05, 1.0]),
    seed=st.integers(0, 2**63 - 1),
)


@given(st.integers(0, 50), settings, st.integers(0, 1000))
@example(3, setting(temperature=50.0, top_p=0.9999), 0)
@example(4, setting(temperature=50.0), 5)
@example(27, setting(temperature=50.0, top_k=0, top_p=0.95, seed=27), 27)
def test_the_draw_follows_the_plain_distribution(seed: int, sampling: Sampling, step: int) -> None:
    logits = logits_of(seed)
    expected = plain_distribution(logits, sampling)
    result = sample(logits, [], sampling, step)
    for row in result.candidates:
        assert row.probability == pytest.approx(expected[row.id], rel=1e-3, abs=1e-6)
    assert result.logprob is not None
    assert math.exp(result.logprob) == pytest.approx(expected[result.token], rel=1e-3)
    # Next to no temperature leaves shares too small for a number; what removes by share removes those, top-k does not.
    if sampling.temperature > 1e-4 or sampling.top_p < 1 or sampling.min_p > 0:
        assert result.ledger.filters[-1].num_survivors == pytest.approx(np.count_nonzero(expected), abs=1)
    # The drawn number falls into the token's stretch of the cumulated distribution. In single precision, nearly equal
    # tokens may stand in another order, and the last survivor of top-p may be one more or one fewer: a token's mass.
    more_probable = expected[expected > expected[result.token] * (1 + 1e-6)].sum()
    slack = 1e-4 + 2 * expected[expected > 0].min()
    assert more_probable - slack <= result.ledger.draw <= more_probable + expected[result.token] + slack


@given(st.integers(0, 50), settings)
def test_nothing_is_infinite_and_nothing_sums_above_one(seed: int, sampling: Sampling) -> None:
    result = sample(logits_of(seed), [], sampling, 0)
    assert sum(row.probability for row in result.candidates) <= 1 + 1e-9
    assert sum(row.raw_probability for row in result.candidates) <= 1 + 1e-6
    assert result.logprob is not None
    numbers = [result.raw_logprob, result.logprob, result.entropy]
    numbers += [x for row in result.candidates for x in (row.logit, row.raw_probability, row.probability)]
    assert all(map(math.isfinite, numbers))
    survivors = [result_of.num_survivors for result_of in result.ledger.filters]
    assert survivors == sorted(survivors, reverse=True)
    assert survivors[-1] >= 1
    assert all(0 <= result_of.removed_mass <= 1 for result_of in result.ledger.filters)


def test_zero_temperature_takes_the_best_token() -> None:
    logits = logits_of(1)
    logits[17] = logits[5] = logits.max() + 1
    result = sample(logits, [], setting(temperature=0), 3)
    assert (result.token, result.rank, result.logprob) == (5, 0, 0.0)
    assert result.ledger.greedy
    assert result.ledger.draw is None
    temperature = result.ledger.filters[2]
    assert (temperature.active, temperature.num_survivors) == (True, 1)
    assert temperature.removed_mass == pytest.approx(1 - float(torch.softmax(logits, 0)[5]), abs=1e-6)


def test_zero_temperature_tells_apart_what_probabilities_cannot() -> None:
    logits = torch.zeros(VOCABULARY)
    logits[9] = 1e-9  # the softmax of both rounds to the same float32
    assert sample(logits, [], setting(temperature=0), 0).token == 9


def test_excluded_tokens_show_zero_after_and_their_own_mass_before() -> None:
    result = sample(logits_of(2), [], setting(top_k=3, temperature=2.0), 0)
    assert [row.probability > 0 for row in result.candidates] == [True] * 3 + [False] * 7
    assert all(row.raw_probability > 0 for row in result.candidates)
    top_k = result.ledger.filters[3]
    tempered = torch.softmax(logits_of(2) / 2, 0).sort(descending=True).values
    assert top_k.removed_mass == pytest.approx(1 - float(tempered[:3].sum()), abs=1e-5)


def test_top_p_keeps_the_smallest_set_that_reaches_it() -> None:
    logits = torch.full((VOCABULARY,), -1e4)
    logits[:3] = torch.tensor([0.5, 0.25, 0.25]).log()
    assert sample(logits, [], setting(top_p=0.5), 0).ledger.filters[4].num_survivors == 1
    assert sample(logits, [], setting(top_p=0.51), 0).ledger.filters[4].num_survivors == 2


def test_raw_logprobs_do_not_know_the_temperature() -> None:
    logits = logits_of(3)
    cold, hot = (sample(logits, [], setting(temperature=t), 0) for t in (0.2, 2.0))
    assert [row.raw_probability for row in cold.candidates[:10]] == [row.raw_probability for row in hot.candidates[:10]]
    for result in (cold, hot):
        expected = float(torch.log_softmax(logits, 0)[result.token])
        assert result.raw_logprob == pytest.approx(expected, abs=1e-4)
    assert (
        cold.entropy
        == hot.entropy
        == pytest.approx(float(torch.distributions.Categorical(logits=logits).entropy()), abs=1e-3)
    )


def test_biases_and_penalties_move_logits_but_not_the_raw_numbers() -> None:
    logits = logits_of(4)
    greedy = setting(temperature=0)
    best = sample(logits, [], greedy, 0).token
    second = sample(logits, [], setting(temperature=0, logit_bias={best: -100}), 0)
    assert second.token != best
    assert second.rank == 1
    assert second.candidates[0].id == best
    forced = sample(logits, [], setting(logit_bias={11: 100}), 0)
    assert forced.token == 11
    assert forced.candidates[-1].id == 11
    assert forced.candidates[-1].logit == float(logits[11])


def test_repetition_counts_the_prompt_and_the_others_only_the_answer() -> None:
    logits = torch.zeros(VOCABULARY)
    logits[[1, 2, 3]] = torch.tensor([4.0, 3.9, 3.8])
    assert sample(logits, [1], setting(temperature=0, repetition_penalty=1.5), 0).token == 2
    assert sample(logits, [1], setting(temperature=0, presence_penalty=1.0), 0).token == 1
    assert sample(logits, [9, 1], setting(temperature=0, presence_penalty=1.0), 1).token == 2
    assert sample(logits, [1, 9], setting(temperature=0, presence_penalty=1.0), 1).token == 1
    assert sample(logits, [1, 1, 2], setting(temperature=0, frequency_penalty=0.12), 3).token == 3
    negative = -logits_of(5).abs()
    best = int(negative.argmax())
    assert sample(negative, [best], setting(temperature=0, repetition_penalty=100), 0).token != best


def draws(step: int) -> Sampled:
    return sample(logits_of(6), [], OFF, step)


def test_draws_are_keyed_by_seed_and_step() -> None:
    assert [draws(step).token for step in range(20)] == [draws(step).token for step in range(20)]
    numbers = {uniform(setting(seed=seed), step) for seed in range(30) for step in range(30)}
    assert len(numbers) == 900
    assert 0.45 < sum(numbers) / 900 < 0.55


def test_sampling_reaches_every_likely_token() -> None:
    logits = torch.full((VOCABULARY,), -50.0)
    logits[:4] = torch.tensor([0.4, 0.3, 0.2, 0.1]).log()
    drawn = [sample(logits, [], OFF, step).token for step in range(1000)]
    shares = np.bincount(drawn, minlength=4) / 1000
    assert shares == pytest.approx([0.4, 0.3, 0.2, 0.1], abs=0.06)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_logits_that_are_not_numbers_are_refused(value: float) -> None:
    logits = logits_of(7)
    logits[100] = value
    with pytest.raises(NonFiniteLogits):
        sample(logits, [], OFF, 0)


@pytest.mark.parametrize(
    "changes",
    [
        {"temperature": 0},
        {"temperature": 1e-4},
        {"top_p": 1e-4},
        {"top_k": VOCABULARY + 1},
        {"top_k": 1, "top_p": 0.8, "temperature": 0.01},
        {"seed": None, "logit_bias": {0: -100.0}},
    ],
)
def test_edges_that_are_allowed(changes: dict[str, Any]) -> None:
    assert validate(setting(**changes), VOCABULARY) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -1.0),
        ("temperature", math.nan),
        ("temperature", math.inf),
        ("temperature", 1e-9),
        ("top_p", 0.0),
        ("top_p", math.nan),
        ("top_p", 1.1),
        ("top_k", -1),
        ("min_p", -0.1),
        ("min_p", math.nan),
        ("repetition_penalty", 0.0),
        ("presence_penalty", math.inf),
        ("frequency_penalty", 3.0),
        ("seed", -1),
        ("max_tokens", 0),
        ("stop", [""]),
        ("stop", ["x"] * 17),
        ("logit_bias", {VOCABULARY: 1.0}),
        ("logit_bias", {1: math.nan}),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(field: str, value: Any) -> None:
    errors = validate(setting(**{field: value}), VOCABULARY)
    assert [error.field for error in errors] == [field]
    assert errors[0].message
