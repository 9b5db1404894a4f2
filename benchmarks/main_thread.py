"""What Chromium's own recording says about the main thread of one page: its tasks, and the scripts within them."""

from __future__ import annotations

import bisect
import json
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from playwright.sync_api import Browser, Page

from benchmarks.quiet import Sample

CATEGORIES = ["devtools.timeline", "disabled-by-default-devtools.timeline"]
SCRIPTS = {"FunctionCall", "EvaluateScript", "v8.compile", "v8.evaluateModule", "v8.compileModule"}
OURS = "/static/"
NOT_OURS = "/static/plotly/"
LONG_MS = 50.0
MARK = "benchmark-zero"


@dataclass(frozen=True)
class Span:
    """Microseconds on Chromium's clock."""

    start: float
    end: float
    processor_ms: float = 0.0

    @property
    def ms(self) -> float:
        return (self.end - self.start) / 1e3


@dataclass(frozen=True)
class Recording:
    """`zero` is `time.monotonic` where Chromium's clock shows 0."""

    tasks: list[Span]
    scripts: list[Span]
    """Outermost calls of our own scripts, in order; none overlaps another."""
    frames: list[float]
    """When each frame was handed to the compositor: scripts before it made it."""
    zero: float

    @property
    def start(self) -> float:
        """By `time.monotonic`."""
        return self.zero + self.tasks[0].start / 1e6

    def long_tasks(self) -> list[Sample]:
        """Tasks over 50 ms in which our scripts ran."""
        starts = [span.start for span in self.scripts]
        return [
            self._sample(task.ms, task) for task in self.tasks if task.ms > LONG_MS and self._holds_script(task, starts)
        ]

    def longest_task(self) -> Sample:
        """Of all tasks, whoever's, in milliseconds."""
        longest = max(self.tasks, key=lambda task: task.ms)
        most = max(task.processor_ms for task in self.tasks)
        return replace(self._sample(longest.ms, longest), processor=most)

    def script_per_frame(self) -> list[Sample]:
        """Milliseconds of our scripts in every frame in which they ran."""
        totals: dict[int, tuple[float, float]] = {}
        for span in self.scripts:
            frame = bisect.bisect_right(self.frames, span.start)
            ms, processor_ms = totals.get(frame, (0.0, 0.0))
            totals[frame] = (ms + span.ms, processor_ms + span.processor_ms)
        bounds = [self.frames[0] - 1e5, *self.frames, self.frames[-1] + 1e5]
        return [
            replace(self._sample(ms, Span(bounds[frame], bounds[frame + 1])), processor=processor_ms)
            for frame, (ms, processor_ms) in totals.items()
        ]

    def _holds_script(self, task: Span, starts: list[float]) -> bool:
        first = bisect.bisect_left(starts, task.start)
        return first < len(starts) and starts[first] <= task.end

    def _sample(self, value: float, span: Span) -> Sample:
        return Sample(value, self.zero + span.start / 1e6, self.zero + span.end / 1e6, span.processor_ms)


class Recorder:
    """Filled when its block ends."""

    recording: Recording


@contextmanager
def recorded(browser: Browser, page: Page) -> Iterator[Recorder]:
    """Record the page's main thread until the block ends."""
    browser.start_tracing(page=page, categories=CATEGORIES)
    recorder = Recorder()
    try:
        yield recorder
    finally:
        marked = time.monotonic()
        page.evaluate(f"console.timeStamp('{MARK}')")  # in the process that shows the page now
        marked = (marked + time.monotonic()) / 2
        events = json.loads(browser.stop_tracing())["traceEvents"]
        recorder.recording = read(events, marked)


def read(events: list[dict[str, Any]], marked: float) -> Recording:
    """`marked` is when the page set its time stamp, by `time.monotonic`."""
    mark = next(one for one in events if one["name"] == "TimeStamp" and _data(one).get("message") == MARK)
    thread = (mark["pid"], mark["tid"])
    own = sorted((one for one in events if (one["pid"], one["tid"]) == thread), key=lambda one: one["ts"])
    whole = [one for one in own if one["ph"] == "X"]
    return Recording(
        tasks=[_span(one) for one in whole if one["name"] == "RunTask"],
        scripts=list(_outermost(_span(one) for one in whole if one["name"] in SCRIPTS and _is_ours(one))),
        frames=[one["ts"] for one in own if one["name"] == "BeginCommitCompositorFrame"],
        zero=marked - mark["ts"] / 1e6,
    )


def _outermost(spans: Iterable[Span]) -> Iterator[Span]:
    end = 0.0
    for span in spans:
        if span.start >= end:
            yield span
            end = span.end


def _is_ours(event: dict[str, Any]) -> bool:
    url = str(_data(event).get("url") or event.get("args", {}).get("fileName") or "")
    return OURS in url and NOT_OURS not in url


def _data(event: dict[str, Any]) -> dict[str, Any]:
    data = event.get("args", {}).get("data")
    return data if isinstance(data, dict) else {}


def _span(event: dict[str, Any]) -> Span:
    return Span(event["ts"], event["ts"] + event.get("dur", 0), event.get("tdur", 0) / 1e3)
