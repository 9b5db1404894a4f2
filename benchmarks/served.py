"""The figures of the engine as a whole: reuse, views, memory, and how evenly answers run beside a long prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks.calibration import Calibration
from benchmarks.figures import Figure, of_values
from benchmarks.memory import worker_memory
from benchmarks.rounds import Round, quieter_half
from benchmarks.sides import prompt
from inference.machine import ModelMachine, load_machine
from inference.messages import Ended, FromEngine, Generate, Prefilled, Sampling, Started, Steps, Subject, ViewRequest
from inference.query import ASKED
from inference.settings import EngineSettings
from inference.views import VIEWS

LENGTH = 512
"""Positions of the response that views look into."""
LENS_LIMIT_MS = 200
QUERY = {"layer": 14, "head": 4, "heads": "14:4"}
"""Of which every view takes what it knows."""
RUNNING, LONG_PROMPT = 8, 2000
LEAST_PREFILL_SHARE = 0.7


def generate(name: str, token_ids: list[int], max_tokens: int) -> Generate:
    """A greedy answer of exactly `max_tokens`: nothing stops it before."""
    sampling = Sampling(temperature=0, seed=0, max_tokens=max_tokens)
    return Generate(name, token_ids, sampling, stop_token_ids=[], owner="bench", record=True)


def measure(
    settings: EngineSettings, wanted: set[str], num_rounds: int, calibration: Calibration
) -> tuple[list[Figure], dict[str, Any]]:
    """The wanted figures; every view's median, for the record."""
    figures: list[Figure] = []
    facts: dict[str, Any] = {}
    here = {"second_turn_tokens_computed", "attention_map_ms", "views_median_ms", "decode_gap_steps"}
    if here & wanted:
        machine = load_machine(settings)
        facts["fingerprint"] = machine.ready().fingerprint
        if "second_turn_tokens_computed" in wanted:
            figures.append(_second_turn(machine))
        if {"attention_map_ms", "views_median_ms"} & wanted:
            more, facts["view_ms"] = _views(machine, num_rounds, calibration)
            figures += [figure for figure in more if figure.key in wanted]
        if "decode_gap_steps" in wanted:
            figures.append(_gap(machine, max(num_rounds // 2, 5)))
    if "worker_memory_mb" in wanted:
        figures.append(worker_memory(settings))
    return figures, facts


def _finish(machine: ModelMachine, request: Generate) -> list[FromEngine]:
    machine.submit(request)
    return [message for message in _run(machine)]


def _run(machine: ModelMachine) -> Iterator[FromEngine]:
    while machine.has_work:
        yield from machine.step()


def _second_turn(machine: ModelMachine) -> Figure:
    """A conversation of 1,000 tokens goes on: what is computed of the second turn's prompt beyond its new tokens."""
    first = generate("first", prompt(900), 100)
    answer = next(m.token_ids for m in _finish(machine, first) if isinstance(m, Ended))
    new = prompt(40, number=1)
    second = generate("second", [*first.token_ids, *answer, *new], 4)
    started = next(m for m in _finish(machine, second) if isinstance(m, Started))
    beyond = len(second.token_ids) - len(new) - started.num_prefix_tokens
    return Figure("second_turn_tokens_computed", beyond, (beyond, beyond), "counted")


def _views(machine: ModelMachine, num_rounds: int, calibration: Calibration) -> tuple[list[Figure], dict[str, float]]:
    """Every view of a finished response, at a layer and head of the middle and the last position."""
    request = generate("viewed", prompt(LENGTH - 64), 65)
    ended = next(m for m in _finish(machine, request) if isinstance(m, Ended))
    token_ids = [*request.token_ids, *ended.token_ids]
    subject = Subject("viewed", machine.ready().fingerprint, token_ids, len(request.token_ids))

    def look(slug: str) -> float:
        query = {name: value for name, value in QUERY.items() if name in ASKED[slug].parameters}
        question = ViewRequest("", slug, query, subject, subject if slug == "contextual" else None)
        started = perf_counter()
        reply = machine.view(question, lambda: None)
        taken = 1e3 * (perf_counter() - started)
        if reply.error is not None:
            raise RuntimeError(f"view {slug}: {reply.field}: {reply.error}")
        return taken

    judged = quieter_half([_round(VIEWS, look, calibration) for _ in range(num_rounds)])
    medians = {slug: median(one.values[slug] for one in judged) for slug in VIEWS}
    slowest = max((slug for slug in VIEWS if slug != "lens"), key=lambda slug: medians[slug])
    figures = [
        of_values("attention_map_ms", [one.values["attention"] for one in judged]),
        of_values(
            "views_median_ms",
            [one.values[slowest] for one in judged],
            f"{slowest}; lens {medians['lens']:.0f}",
            condition=medians["lens"] <= LENS_LIMIT_MS,
        ),
    ]
    return figures, {slug: round(value, 1) for slug, value in medians.items()}


def _round(slugs: dict[str, Any], look: Callable[[str], float], calibration: Calibration) -> Round:
    before = calibration.read()
    values = {slug: look(slug) for slug in slugs}
    return Round(max(before, calibration.read()), values)


def _gap(machine: ModelMachine, num_rounds: int) -> Figure:
    """While eight answers run, a long prompt is read: the longest time between two tokens of an answer, in steps of
    the eight alone. Judged with it: the speed of reading, against reading with nothing else to do."""
    gaps, shares = [], []
    for number in range(num_rounds):
        alone = _time_to_read(machine, f"alone-{number}", number)
        for n in range(RUNNING):
            machine.submit(generate(f"running-{number}-{n}", prompt(32, n), 400))
        unread = RUNNING
        while unread:
            unread -= sum(isinstance(message, Prefilled) for message in machine.step())
        before = _token_times(machine, 30)
        began = perf_counter()
        machine.submit(generate(f"beside-{number}", prompt(LONG_PROMPT, number + 1000), 1))
        times = _token_times(machine, None)
        shares.append(alone / (perf_counter() - began))
        after = _token_times(machine, 30)
        step = median(later - earlier for steps in (before, after) for earlier, later in pairwise(steps))
        gaps.append(max(later - earlier for earlier, later in pairwise([began, *times])) / step)
        for n in range(RUNNING):
            machine.cancel(f"running-{number}-{n}")
        for _ in _run(machine):
            pass
    share = median(shares)
    note = f"prefill at {share:.0%} of its unmixed speed, at least {LEAST_PREFILL_SHARE:.0%}"
    return of_values("decode_gap_steps", gaps, note, condition=share >= LEAST_PREFILL_SHARE)


def _time_to_read(machine: ModelMachine, name: str, number: int) -> float:
    """Seconds until a prompt that nobody read before has been read, with nothing else to do."""
    began = perf_counter()
    machine.submit(generate(name, prompt(LONG_PROMPT, number + 5000), 1))
    for message in _run(machine):
        if isinstance(message, Prefilled):
            taken = perf_counter() - began
    return taken


def _token_times(machine: ModelMachine, count: int | None) -> list[float]:
    """When steps brought tokens: of `count` steps, or until a prompt has been read."""
    times: list[float] = []
    while count is None or len(times) < count:
        messages = machine.step()
        if any(isinstance(message, Steps) for message in messages):
            times.append(perf_counter())
        if count is None and any(isinstance(message, Prefilled) for message in messages):
            break
    return times
