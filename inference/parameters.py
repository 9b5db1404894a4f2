"""Which requests and parameters make sense. No torch here: the service checks them before anything is computed."""

from __future__ import annotations

import math
from typing import NamedTuple

from inference.messages import Generate, Sampling

SMALLEST_TEMPERATURE = 1e-5  # below it, dividing float32 logits could overflow
MAX_STOPS = 16
MAX_STOP_LENGTH = 256
MAX_BIASES = 1024
LARGEST_SEED = 2**63 - 1
CHOICE = tuple(name for name in Sampling.__struct_fields__ if name not in ("max_tokens", "stop"))
"""The parameters that choose a token; the others end the answer."""


class FieldError(NamedTuple):
    """What is wrong with one field, with its limit."""

    field: str
    message: str


def validate(sampling: Sampling, vocabulary: int) -> list[FieldError]:
    """Everything wrong with these parameters, empty if nothing is. `vocabulary` is the number of token ids."""
    return [
        *_ranges(sampling),
        *_temperature(sampling.temperature),
        *_biases(sampling.logit_bias, vocabulary),
        *_stops(sampling.stop),
    ]


def objection(request: Generate, vocabulary: int, capacity: int) -> str | None:
    """Why a request cannot be answered by an engine with room for `capacity` tokens; the service checks the same before
    and says it better."""
    ids = [*request.token_ids, *request.given]
    if not request.token_ids:
        return "token_ids: the prompt is empty; at least one token is needed."
    if len(request.token_ids) >= capacity:
        return f"token_ids: the prompt has {len(request.token_ids)} tokens; at most {capacity - 1} fit."
    if min(ids) < 0 or max(ids) >= vocabulary:
        return f"token_ids: every id must be from 0 to {vocabulary - 1}."
    if request.sampling.seed is None:
        return "seed: must be set."
    errors = validate(request.sampling, vocabulary)
    return f"{errors[0].field}: {errors[0].message}." if errors else None


def _ranges(sampling: Sampling) -> list[FieldError]:
    limits: dict[str, tuple[float, float]] = {
        "repetition_penalty": (0.01, 100),
        "presence_penalty": (-2, 2),
        "frequency_penalty": (-2, 2),
        "top_k": (0, math.inf),
        "min_p": (0, 1),
        "seed": (0, LARGEST_SEED),
        "max_tokens": (1, math.inf),
    }
    errors = []
    for field, (low, high) in limits.items():
        value = getattr(sampling, field)
        if value is not None and not low <= value <= high:  # false for NaN as well
            limit = f"at least {low}" if high == math.inf else f"between {low} and {high}"
            errors.append(FieldError(field, f"must be {limit}, not {f'{value}'[:40]}"))
    if not 0 < sampling.top_p <= 1:
        errors.append(FieldError("top_p", f"must be above 0 and at most 1, not {sampling.top_p}"))
    return errors


def _temperature(value: float) -> list[FieldError]:
    if value == 0 or SMALLEST_TEMPERATURE <= value < math.inf:
        return []
    return [FieldError("temperature", f"must be 0 or a number of at least {SMALLEST_TEMPERATURE}, not {value}")]


def _biases(biases: dict[int, float], vocabulary: int) -> list[FieldError]:
    if len(biases) > MAX_BIASES:
        return [FieldError("logit_bias", f"must have at most {MAX_BIASES} entries, not {len(biases)}")]
    errors = []
    for token, bias in biases.items():
        if not 0 <= token < vocabulary:
            errors.append(FieldError("logit_bias", f"token id must be from 0 to {vocabulary - 1}, not {token}"))
        if not -100 <= bias <= 100:
            errors.append(FieldError("logit_bias", f"must be between -100 and 100, not {bias} (token {token})"))
    return errors


def _stops(stops: list[str]) -> list[FieldError]:
    if len(stops) > MAX_STOPS:
        return [FieldError("stop", f"must have at most {MAX_STOPS} strings, not {len(stops)}")]
    return [
        FieldError("stop", f"each string must have 1 to {MAX_STOP_LENGTH} characters, not {len(stop)}")
        for stop in stops
        if not 1 <= len(stop) <= MAX_STOP_LENGTH
    ]
