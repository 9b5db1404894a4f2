"""Where a journey can be held: after a stage has been reported, or after a generated token."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from webtrace.client_events import Breakpoint, StepPoint
from webtrace.stages import STAGES

MAX_BREAKPOINTS = 64
LARGEST_STEP = 2**31 - 1
_ORDER = {stage.slug: index for index, stage in enumerate(STAGES)}
_FIRST_IN_STEP, _LAST_IN_STEP = "embeddings", "sampling"
IN_STEP = tuple(list(_ORDER)[_ORDER[_FIRST_IN_STEP] : _ORDER[_LAST_IN_STEP] + 1])
"""Stages that a step of the model goes through: the sequence is held after step 0 for them."""
TELLING = ("logits", "probabilities", "sampling")
"""Those of them that tell which token step 0 chose."""


class Station(NamedTuple):
    """A place on the way, in the order of the way. `step` is 0 in all stages before the first token."""

    order: int
    step: int

    @property
    def stage(self) -> str:
        return STAGES[self.order].slug

    @property
    def shown_step(self) -> int | None:
        """The step one stands after, where there is one."""
        return self.step if self.stage in IN_STEP else None

    def __str__(self) -> str:
        return self.stage if self.shown_step is None else f"{self.stage}, step {self.step}"


def after_stage(slug: str, step: int | None = None) -> Station:
    """Where the stage has been reported."""
    return Station(_ORDER[slug], step or 0)


def after_step(step: int) -> Station:
    """Where the step's token has been chosen."""
    return Station(_ORDER[_LAST_IN_STEP], step)


def stations_of_step(step: int) -> list[Station]:
    """Where one can stand once the step's token has been chosen: at step 0 also in the stages that led to it."""
    return [after_stage(slug) for slug in IN_STEP] if step == 0 else [after_step(step)]


def parse(point: Breakpoint) -> Station:
    """Raises ValueError with what is wrong."""
    if isinstance(point, StepPoint):
        if not 0 <= point.step <= LARGEST_STEP:
            raise ValueError(f"step must be from 0 to {LARGEST_STEP}, not {point.step}")
        return after_step(point.step)
    if point not in _ORDER:
        raise ValueError(f"must be a stage ({', '.join(_ORDER)}) or a step, not {point[:40]!r}")
    return after_stage(point)


class Problem(NamedTuple):
    field: str
    message: str


def problem_with(points: Sequence[Breakpoint], max_tokens: int) -> Problem | None:
    """The first breakpoint of a request that makes no sense."""
    if len(points) > MAX_BREAKPOINTS:
        return Problem("breakpoints", f"breakpoints has {len(points)} entries; at most {MAX_BREAKPOINTS} are allowed.")
    for index, point in enumerate(points):
        field = f"breakpoints[{index}]"
        try:
            station = parse(point)
        except ValueError as error:
            return Problem(field, f"{field}: {error}.")
        if station.step >= max_tokens:
            return Problem(
                f"{field}.step", f"{field}.step must be from 0 to {max_tokens - 1}, the last token, not {station.step}."
            )
    return None


def from_json(points: Iterable[Any]) -> list[Station]:
    """Checked breakpoints as they were stored with the request."""
    return [parse(msgspec.convert(point, Breakpoint)) for point in points]


class Breakpoints:
    """Where one response is still to be held. Those it has passed count for nothing any more."""

    def __init__(self, stations: Iterable[Station]) -> None:
        self._stations = set(stations)
        self._next = False

    def put(self, stations: Iterable[Station]) -> None:
        """Hold at these, and at none that were set before."""
        self._stations = set(stations)

    def hold_at(self, station: Station) -> bool:
        return self._next or station in self._stations

    def pass_by(self, station: Station) -> None:
        """The journey stands here: this place and those before it are behind."""
        self._stations = {other for other in self._stations if other > station}
        self._next = False

    def go(self, until: Breakpoint) -> None:
        """Hold next where the client said, and at what breakpoints lie before that; at the `end`, nowhere."""
        if until == "end":
            self._stations.clear()
        elif until == "next":
            self._next = True
        else:
            self._stations.add(parse(until))

    def steps(self, done: int | None = None) -> list[int]:
        """Steps after which the engine must hold the sequence; `done` is the step it stands after now."""
        found = {one.step for one in self._stations if one.shown_step is not None}
        if self._next:
            found.add(0 if done is None else done + 1)
        return sorted(found)
