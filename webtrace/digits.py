"""Numbers as they go over the wire: ten significant digits, one more than a float32 has."""

from __future__ import annotations

import msgspec

from inference.messages import Candidate, FilterResult, Ledger


def of_number(value: float | None) -> float | None:
    return None if value is None else _digits(value)


def of_candidates(candidates: list[Candidate]) -> list[Candidate]:
    return [
        Candidate(one.id, one.text, _digits(one.logit), _digits(one.raw_probability), _digits(one.probability))
        for one in candidates
    ]


def of_ledger(ledger: Ledger) -> Ledger:
    """The draw keeps all its digits: on the border between two tokens the last one decides."""
    filters: list[FilterResult] = [
        msgspec.structs.replace(one, removed_mass=_digits(one.removed_mass)) if one.removed_mass else one
        for one in ledger.filters
    ]
    return msgspec.structs.replace(ledger, filters=filters)


def _digits(value: float) -> float:
    return float(f"{value:.10g}")
