"""From scores and rule hits to one of five decisions, with everything that led to it.

The policy for an input, first match wins: a rule redirects (self-harm) or refuses (making a weapon); a head acts (a
threat is refused, harassment redirected); a rule asks for a person, or the harmful labels are over the threshold
together and none alone; a rule or a head asks for care, and the prompt gets an amendment; otherwise it is allowed. An
answer is allowed, refused or reviewed, window by window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from inference.classifier import Card
from webtrace.reporting.service_reports import Decision, InputSafetyReport, OutputWindow, RuleHit, Score
from webtrace.safety import policy, rules
from webtrace.safety.passages import Scored, plain
from webtrace.safety.rules import Direction

HARASSMENT = "targeted_harassment"


class Judgement(msgspec.Struct, frozen=True):
    """`scores` are those of the passage that decided. `answer` is what is said instead of the model's answer."""

    direction: Direction
    technique: str
    version: str
    scores: list[Score]
    rules: list[RuleHit]
    decision: Decision
    reason: str
    amendment: str | None = None
    answer: str | None = None

    @property
    def passes(self) -> bool:
        """Whether the model may answer, or the window be shown."""
        return self.decision in ("allow", "constrain")

    def input_report(self) -> InputSafetyReport:
        return InputSafetyReport(
            technique=self.technique,
            version=self.version,
            scores=self.scores,
            rules=self.rules,
            decision=self.decision,
            reason=self.reason,
            amendment=self.amendment,
        )

    def output_window(self, start: int, end: int) -> OutputWindow:
        """For characters [start, end) of the answer."""
        return OutputWindow(
            start=start, end=end, scores=self.scores, rules=self.rules, decision=self.decision, reason=self.reason
        )


class _Verdict(NamedTuple):
    decision: Decision
    reason: str
    amendment: str | None = None
    answer: str | None = None


class _Heads(NamedTuple):
    """The passage that comes closest to a decision, seen through the card's thresholds."""

    scores: Mapping[str, float]
    card: Card
    place: str

    def score(self, label: str) -> str:
        return f"“{label.replace('_', ' ')}” scores {self.scores[label]:.3f}{self.place}"


def judge_input(text: str, scored: Sequence[Scored], card: Card | None) -> Judgement:
    """What to do with a message. `scored` are its passages (`score_passages`); without a card rules decide alone."""
    hits, heads = rules.hits(plain(text), "input"), _heads(scored, card)
    return _judgement("input", hits, heads, card, _decide_input(hits, heads))


def judge_output(text: str, scored: Sequence[Scored], card: Card | None) -> Judgement:
    """Whether a window of an answer may be shown. Arguments as in `judge_input`."""
    hits, heads = rules.hits(plain(text), "output"), _heads(scored, card)
    return _judgement("output", hits, heads, card, _decide_output(hits, heads))


def _judgement(
    direction: Direction, hits: list[RuleHit], heads: _Heads | None, card: Card | None, verdict: _Verdict
) -> Judgement:
    return Judgement(
        direction=direction,
        technique=f"{card.technique}, and rules" if card else "rules",
        version=f"{card.version if card else 'no heads'} · rules {rules.VERSION}",
        scores=_shown_scores(heads) if heads else [],
        rules=hits,
        decision=verdict.decision,
        reason=verdict.reason,
        amendment=verdict.amendment,
        answer=verdict.answer,
    )


def _decide_input(hits: Sequence[RuleHit], heads: _Heads | None) -> _Verdict:
    by_effect = {hit.effect: hit for hit in reversed(hits)}
    if hit := by_effect.get("redirect"):
        return _Verdict("redirect", _matched(hit), answer=policy.SELF_HARM)
    if hit := by_effect.get("refuse"):
        return _Verdict("refuse", _matched(hit), answer=policy.NO_WEAPON)
    if acting := _acting(hits, heads):
        if acting.label == HARASSMENT:
            return _Verdict("redirect", acting.reason, answer=policy.KINDNESS)
        return _Verdict("refuse", acting.reason, answer=policy.REFUSAL)
    if hit := by_effect.get("review"):
        return _Verdict("review", _matched(hit), answer=policy.REVIEW)
    if reason := _undecided(heads):
        return _Verdict("review", reason, answer=policy.REVIEW)
    cares = [(policy.NO_CARD_NUMBER, _matched(hit)) for hit in hits if hit.effect == "constrain"]
    if reason := _doubtful(heads):
        cares.append((policy.GOOD_NATURED, reason))
    if cares:
        amendments, reasons = zip(*cares, strict=True)
        return _Verdict("constrain", "; ".join(reasons), amendment=" ".join(amendments))
    return _Verdict("allow", _quiet(heads))


def _decide_output(hits: Sequence[RuleHit], heads: _Heads | None) -> _Verdict:
    for hit in hits:
        if hit.effect == "refuse":
            return _Verdict("refuse", _matched(hit))
    undecided = _undecided(heads)
    lowered = any(hit.effect == "lower" for hit in hits)
    # An answer has many windows and each can err: without a rule, both kinds of threshold must be reached.
    if (acting := _acting(hits, heads)) and (undecided or lowered):
        return _Verdict("refuse", acting.reason)
    if undecided:
        return _Verdict("review", undecided)
    return _Verdict("allow", _quiet(heads))


# ---------------------------------------------------------------- what the heads say


class _Acting(NamedTuple):
    label: str
    reason: str


def _heads(scored: Sequence[Scored], card: Card | None) -> _Heads | None:
    """The passage with the score furthest along to its threshold; None without passages or heads."""
    if card is None or not scored:
        return None
    number = max(range(len(scored)), key=lambda index: _pressure(scored[index].scores, card))
    place = f" in passage {number + 1} of {len(scored)}" if len(scored) > 1 else ""
    return _Heads(scored[number].scores, card, place)


def _pressure(scores: Mapping[str, float], card: Card) -> float:
    """1 where a threshold to act is reached."""
    alone = max(scores[label] / limits.act for label, limits in card.thresholds.items())
    return max(alone, _total(scores, card) / card.total.act)


def _total(scores: Mapping[str, float], card: Card) -> float:
    return sum(scores[label] for label in card.thresholds)


def _acting(hits: Sequence[RuleHit], heads: _Heads | None) -> _Acting | None:
    """The harmful label that is over its threshold to act, which a rule may have lowered."""
    lowered = next((hit for hit in hits if hit.effect == "lower"), None)
    if heads is None:
        return _Acting("", _matched(lowered)) if lowered else None
    for label in sorted(heads.card.thresholds, key=lambda label: -heads.scores[label]):
        limits = heads.card.thresholds[label]
        bar = limits.caution if lowered else limits.act
        if heads.scores[label] >= bar:
            note = f", lowered because {_matched(lowered)}" if lowered else ""
            return _Acting(label, f"{heads.score(label)}; the threshold is {bar:.3f}{note}")
    return None


def _undecided(heads: _Heads | None) -> str | None:
    """Why a person must look: harmful together, no label alone."""
    if heads is None or (total := _total(heads.scores, heads.card)) < heads.card.total.act:
        return None
    return (
        f"the harmful labels together score {total:.3f}{heads.place}, over {heads.card.total.act:.3f}, "
        "but none does alone"
    )


def _doubtful(heads: _Heads | None) -> str | None:
    """Why to be careful, though no label acts."""
    if heads is None:
        return None
    for label, limits in heads.card.thresholds.items():
        if heads.scores[label] >= limits.caution:
            return f"{heads.score(label)}; care is taken from {limits.caution:.3f} on"
    return None


def _quiet(heads: _Heads | None) -> str:
    if heads is None:
        return "no rule objects"
    highest = max(heads.scores, key=lambda label: heads.scores[label])
    return f"{heads.score(highest)}; no harmful label reaches its threshold"


def _shown_scores(heads: _Heads) -> list[Score]:
    acting = {label: limits.act for label, limits in heads.card.thresholds.items()}
    return [Score(label, heads.scores[label], acting.get(label)) for label in heads.card.labels]


def _matched(hit: RuleHit) -> str:
    return f"rule {hit.rule} matched “{hit.detail}”"
