"""The figures that are ratios: the traced decoder beside llama.cpp, transformers, and itself without recording."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

from benchmarks.calibration import Calibration
from benchmarks.figures import Figure, of_values, with_interval
from benchmarks.rounds import Side, alternate, middle, quieter_half, ratios
from benchmarks.sides.llamacpp import LlamaCpp, requantised
from benchmarks.sides.reference import ReferenceDecoder
from benchmarks.sides.traced import TracedDecoder
from inference.settings import EngineSettings

OURS, NATIVE, FASTEST = "traced, recording", "llama.cpp", "llama.cpp, Q4_0"
REFERENCE, UNRECORDED = "transformers", "traced, not recording"
PAIRS = 40
"""Alternations for the cost of recording: a few hundredths are to be told apart, in the quieter half."""


class _Sides:
    """Every decoder, loaded when it is first asked for."""

    def __init__(self, settings: EngineSettings) -> None:
        self._settings = settings

    @cached_property
    def traced(self) -> TracedDecoder:
        return TracedDecoder(self._settings.model, self._settings.kernel)

    @cached_property
    def native(self) -> LlamaCpp:
        return LlamaCpp(self._settings.model)

    @cached_property
    def fastest(self) -> LlamaCpp:
        return LlamaCpp(requantised(self._settings.model, self._settings.data / "cache"))

    @cached_property
    def reference(self) -> ReferenceDecoder:
        return ReferenceDecoder(self._settings.model)


def _decode(sides: _Sides) -> dict[str, Side]:
    return {OURS: sides.traced.decode, NATIVE: sides.native.decode, FASTEST: sides.fastest.decode}


def _batch(sides: _Sides) -> dict[str, Side]:
    return {OURS: sides.traced.decode_batch, NATIVE: sides.native.decode_batch, FASTEST: sides.fastest.decode_batch}


def _prefill(sides: _Sides) -> dict[str, Side]:
    return {OURS: sides.traced.prefill, NATIVE: sides.native.prefill, FASTEST: sides.fastest.prefill}


def _reference(sides: _Sides) -> dict[str, Side]:
    return {OURS: sides.traced.decode, REFERENCE: sides.reference.decode}


def _recording(sides: _Sides) -> dict[str, Side]:
    return {OURS: sides.traced.decode, UNRECORDED: partial(sides.traced.decode, record=False)}


COMPARISONS: dict[str, tuple[Callable[[_Sides], dict[str, Side]], str]] = {
    "decode_vs_llamacpp": (_decode, NATIVE),
    "batch8_vs_llamacpp": (_batch, NATIVE),
    "prefill_vs_llamacpp": (_prefill, NATIVE),
    "decode_vs_transformers": (_reference, REFERENCE),
    "recording_on_vs_off": (_recording, UNRECORDED),
}
"""By figure: the sides that take turns, and which of them the traced decoder is divided by."""


def measure(
    settings: EngineSettings, wanted: set[str], num_rounds: int, calibration: Calibration
) -> tuple[list[Figure], dict[str, Any]]:
    """The wanted figures and, for the record, the medians behind them in tokens per second."""
    sides, figures = _Sides(settings), []
    speeds: dict[str, dict[str, float]] = {}
    for key, (make, against) in COMPARISONS.items():
        if key not in wanted:
            continue
        pairs = key == "recording_on_vs_off"
        judged = quieter_half(alternate(make(sides), PAIRS if pairs else num_rounds, calibration))
        summarise = with_interval if pairs else of_values
        figures.append(summarise(key, ratios(judged, OURS, against)))
        speeds[key] = {name: round(middle(judged, name), 1) for name in judged[0].values}
    if not figures:
        return [], {}
    plan = sides.traced.decoder.plan
    return figures, {"plan": str(plan), "why": plan.reason, "tokens_per_second": speeds}
