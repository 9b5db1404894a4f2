"""What the page's benchmark makes of Chromium's recording and of a noisy machine."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.main_thread import MARK, read
from benchmarks.quiet import Sample, Watch

PAGE: dict[str, Any] = {"pid": 1, "tid": 1}
OTHER: dict[str, Any] = {"pid": 1, "tid": 2}
ZERO_S = 100.0  # of this process's clock, where Chromium's shows 0


def event(name: str, start: float, ms: float = 0, url: str = "", **more: Any) -> dict[str, Any]:
    """A complete event of the page's main thread; times in milliseconds."""
    args = {"data": {"url": url}} if url else {}
    return {"name": name, "ph": "X", "ts": 1e3 * start, "dur": 1e3 * ms, "args": args, **PAGE, **more}


def recording(*events: dict[str, Any]) -> Any:
    mark = event("TimeStamp", 1000, args={"data": {"message": MARK}})
    return read([*events, mark], ZERO_S + 1)


def test_long_tasks_are_those_in_which_a_script_of_ours_ran() -> None:
    found = recording(
        event("RunTask", 0, 60, tdur=20_000),
        event("FunctionCall", 10, 40, "http://x/static/js/a.js"),
        event("RunTask", 100, 70),
        event("FunctionCall", 110, 50, "http://x/static/plotly/plotly.min.js"),
        event("RunTask", 200, 50),
        event("FunctionCall", 201, 40, "http://x/static/js/a.js"),
        event("RunTask", 300, 90, **OTHER),
        event("FunctionCall", 301, 80, "http://x/static/js/a.js", **OTHER),
    )
    (task,) = found.long_tasks()
    assert (task.value, task.processor) == (60, 20)
    assert (task.start, task.end) == (pytest.approx(ZERO_S), pytest.approx(ZERO_S + 0.06))
    assert found.longest_task().value == 70


def test_scripts_are_counted_once_and_by_the_frame_they_make() -> None:
    ours = "http://x/static/js/a.js"
    found = recording(
        event("RunTask", 0, 5),
        event("FunctionCall", 1, 3, ours),
        event("FunctionCall", 2, 1, ours),  # called by the one before
        event("FunctionCall", 6, 2, ours),
        event("BeginCommitCompositorFrame", 10, ph="I"),
        event("FunctionCall", 12, 4, ours),
        event("BeginCommitCompositorFrame", 20, ph="I"),
    )
    assert [frame.value for frame in found.script_per_frame()] == [5, 4]


def test_the_quieter_half_is_where_the_work_was_quickest() -> None:
    watch = Watch()
    watch.times = [(0.0, 9.0), (10.0, 1.0), (20.0, 8.0), (30.0, 2.0), (40.0, 7.0)]
    samples = [Sample(number, at, at + 0.1) for number, (at, _) in enumerate(watch.times)]
    assert [sample.value for sample in watch.quieter_half(samples)] == [1, 3, 4]
