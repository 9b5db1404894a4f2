"""From logits to the next token, with a ledger of what each filter did.

The order is that of vLLM and transformers: logit bias, penalties, temperature, top-k, top-p, min-p, draw. The
draw is counter-based: the uniform number depends on (seed, step) alone, whatever else runs in the batch. It falls
into the survivors' probabilities laid end to end, most probable first.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from inference.messages import FilterName, FilterResult, Ledger, Sampling
from inference.model.attention import softmax

HEAD = 1024  # sorting all of the vocabulary takes 15 times as long as finding this many, and is rarely needed
NUM_CANDIDATES = 10


class NonFiniteLogits(ArithmeticError):
    """The logits hold NaN or infinity: nothing can be drawn from them."""


class Row(NamedTuple):
    """One token's place in the distribution. `probability` is the sampler's own: 0 when a filter removed it."""

    id: int
    logit: float
    raw_probability: float
    probability: float


@dataclass(frozen=True)
class Sampled:
    """The chosen token and how it came about.

    `raw_logprob`, `rank` (0 is best) and `entropy` (nats) are of the raw logits over the whole vocabulary;
    `logprob` is of the distribution the token was drawn from: null for a given token that it does not hold.
    `candidates` are the best by raw logit, and the chosen one if it is not among them.
    """

    token: int
    ledger: Ledger
    raw_logprob: float
    logprob: float | None
    rank: int
    entropy: float
    candidates: list[Row]


def sample(logits: Tensor, history: Sequence[int], sampling: Sampling, step: int, given: int | None = None) -> Sampled:
    """Choose the token of step `step` from `logits` [vocabulary], float32 on the CPU, or take the `given` one: then
    the ledger says what the filters and the draw would have done.

    `history` is prompt and answer so far; its last `step` ids are the answer. `sampling` is valid
    (inference.parameters) and has a seed. Raises NonFiniteLogits.
    """
    raw = softmax(logits)
    best_logits, best_ids = torch.topk(logits, min(NUM_CANDIDATES, len(logits)))
    log_sum = float(best_logits[0]) - math.log(float(raw[best_ids[0]]))
    entropy = log_sum - float(torch.dot(raw, logits))
    if not math.isfinite(entropy):
        raise NonFiniteLogits("The logits are not finite numbers.")

    adjusted = _add_biases(logits, sampling.logit_bias)
    adjusted = _apply_penalties(adjusted, history, step, sampling)
    greedy = sampling.temperature == 0
    draw = None if greedy else uniform(sampling, step)
    scores = adjusted if greedy else (adjusted - adjusted.max()) / sampling.temperature
    tempered = softmax(scores)
    race, place = _run_race(scores, tempered, sampling, draw)

    token = int(race.ids[place]) if given is None else given
    shown = best_ids.tolist()
    if token not in shown:
        shown.append(token)
    rows = _rows(shown, logits, raw, tempered, race)
    share = next(row.probability for row in rows if row.id == token)
    return Sampled(
        token=token,
        ledger=Ledger(filters=race.filters, draw=draw, greedy=greedy),
        raw_logprob=float(logits[token]) - log_sum,
        logprob=math.log(share) if share > 0 else None,
        rank=_rank(logits, best_logits, token),
        entropy=max(entropy, 0.0),
        candidates=rows,
    )


def _rank(logits: Tensor, best: Tensor, token: int) -> int:
    """How many tokens have a higher logit; `best` are the highest logits, which mostly settle it."""
    higher = int((best > logits[token]).sum())
    return higher if higher < len(best) else int((logits > logits[token]).sum())


def _rows(ids: list[int], logits: Tensor, raw: Tensor, tempered: Tensor, race: _Race) -> list[Row]:
    """What is told of these tokens."""
    final = dict(zip(race.ids.tolist(), race.probabilities.tolist(), strict=True))
    behind = torch.zeros(len(ids)) if race.whole else tempered[ids]  # of tokens that no filter looked at
    rows = zip(ids, logits[ids].tolist(), raw[ids].tolist(), behind.tolist(), strict=True)
    return [Row(i, logit, raw_share, final.get(i, rest)) for i, logit, raw_share, rest in rows]


def uniform(sampling: Sampling, step: int) -> float:
    """The uniform number in [0, 1) of this seed and step."""
    return float(np.random.Generator(np.random.Philox(key=sampling.seed, counter=step)).random())


def _add_biases(logits: Tensor, biases: dict[int, float]) -> Tensor:
    if not biases:
        return logits
    return logits.index_add(0, torch.tensor(list(biases)), torch.tensor(list(biases.values()), dtype=logits.dtype))


def _apply_penalties(logits: Tensor, history: Sequence[int], step: int, sampling: Sampling) -> Tensor:
    """Repetition over prompt and answer (positive logits divided, negative ones multiplied); presence and
    frequency, subtracted once and per occurrence, over the answer alone."""
    if sampling.repetition_penalty != 1 and history:
        seen = torch.tensor(sorted(set(history)))
        old = logits[seen]
        factor = sampling.repetition_penalty
        logits = logits.index_copy(0, seen, torch.where(old > 0, old / factor, old * factor))
    if (sampling.presence_penalty or sampling.frequency_penalty) and step:
        counts = Counter(history[-step:])
        amounts = [-sampling.presence_penalty - sampling.frequency_penalty * n for n in counts.values()]
        logits = logits.index_add(0, torch.tensor(list(counts)), torch.tensor(amounts, dtype=logits.dtype))
    return logits


def _run_race(scores: Tensor, tempered: Tensor, sampling: Sampling, draw: float | None) -> tuple[_Race, int]:
    """All filters from temperature on, and the index of the chosen survivor; `draw` None is greedy.

    Sorts no more of the vocabulary than the outcome needs.
    """
    vocabulary = len(tempered)
    top_k = 0 < sampling.top_k < vocabulary
    for head in (sampling.top_k if top_k else HEAD, vocabulary):
        race = _Race(scores, tempered, 1 if draw is None else head, _before_temperature(sampling, vocabulary))
        try:
            race.temperature(sampling.temperature)
            race.top_k(sampling.top_k, top_k and draw is not None)
            race.top_p(sampling.top_p, sampling.top_p < 1 and draw is not None)
            race.min_p(sampling.min_p, sampling.min_p > 0 and draw is not None)
            return race, 0 if draw is None else race.draw(draw)
        except _HeadTooShort:
            continue
    raise AssertionError("The whole vocabulary always suffices.")


def _before_temperature(sampling: Sampling, vocabulary: int) -> list[FilterResult]:
    """Bias and penalties move probability but remove no token."""
    penalties = {
        "repetition": sampling.repetition_penalty,
        "presence": sampling.presence_penalty,
        "frequency": sampling.frequency_penalty,
    }
    penalised = penalties != {"repetition": 1, "presence": 0, "frequency": 0}
    return [
        FilterResult("logit_bias", sampling.logit_bias, bool(sampling.logit_bias), vocabulary, 0.0),
        FilterResult("penalties", penalties, penalised, vocabulary, 0.0),
    ]


class _HeadTooShort(Exception):
    """The outcome depends on tokens behind the sorted head."""


class _Race:
    """The tokens still in the race, most probable first, and what each filter did.

    `probabilities` [n] float64 sum to 1, unless only the head of the vocabulary has been sorted and nothing was
    cut yet (not `whole`): then they are the head's share.
    """

    def __init__(self, scores: Tensor, probabilities: Tensor, head: int, filters: list[FilterResult]) -> None:
        self.vocabulary = len(scores)
        head = min(head, self.vocabulary)
        # argmax promises the first of equals, topk does not
        self.ids = torch.argmax(scores)[None] if head == 1 else torch.topk(scores, head).indices
        self.probabilities = probabilities[self.ids].double()
        self.whole = head == self.vocabulary
        self.filters = filters

    def temperature(self, value: float) -> None:
        """Already in the probabilities; 0 leaves the best token alone, and later filters nothing to do."""
        self._keep(1 if value == 0 else None, "temperature", value, active=value != 1)

    def top_k(self, k: int, active: bool) -> None:
        self._keep(k if active else None, "top_k", k, active)

    def top_p(self, p: float, active: bool) -> None:
        """Keep the smallest set of most probable tokens whose probabilities reach p."""
        before = self.probabilities.cumsum(0) - self.probabilities
        count = max(int((before < p).sum()), 1) if active else None
        self._keep(count, "top_p", p, active)

    def min_p(self, share: float, active: bool) -> None:
        """Keep tokens at least `share` times as probable as the best."""
        count = int((self.probabilities >= share * self.probabilities[0]).sum()) if active else None
        self._keep(count, "min_p", share, active)

    def _keep(self, count: int | None, name: FilterName, value: float, active: bool) -> None:
        """Cut after the first `count` and renormalise; None cuts nothing."""
        removed = 0.0
        if count is not None:
            if count == len(self.ids) and not self.whole and name in ("top_p", "min_p"):
                raise _HeadTooShort
            kept = self.probabilities[:count]
            mass = float(kept.sum())
            removed = max(1 - mass, 0.0)
            self.ids, self.probabilities, self.whole = self.ids[:count], kept / mass, True
        num_survivors = len(self.ids) if self.whole else self.vocabulary
        self.filters.append(FilterResult(name, value, active, num_survivors, removed))

    def draw(self, uniform: float) -> int:
        """Index of the token that `uniform` falls on."""
        ends = self.probabilities.cumsum(0)
        place = int(torch.searchsorted(ends, uniform * (float(ends[-1]) if self.whole else 1.0), right=True))
        if place == len(ends) and not self.whole:
            raise _HeadTooShort
        return min(place, int(torch.count_nonzero(self.probabilities)) - 1)
