"""How light and quick is the page? A fake decoder feeds the real service, Chromium visits it, in one run.

    make bench-page        (or python -m benchmarks.page)

Absolute figures are those of the quieter half of a run, by a loop that is timed beside it. What needs tensors, maps
and what-ifs, is asked of the real model. Writes benchmarks/results/page.json.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, expect, sync_playwright

from benchmarks import page_visits as visits
from benchmarks.main_thread import Recording
from benchmarks.quiet import Calibration, Sample, calibrating
from tests.service.site import ROOT, running_site

RESULTS = Path(__file__).parent / "results" / "page.json"
RATE = 100  # tokens a second
STREAMED, OPENED = 4000, 1000  # tokens; the stream is stopped when it has been watched long enough
STREAMS = 2
CONTEXT = 512  # tokens of the prompt whose maps are drawn
SPOKEN = " ".join(f"word {number} of a long story," for number in range(1000))
BOUNDS = {
    "long_tasks": 0,
    "frame_script_p95_ms": 8,
    "head_to_map_ms": 150,
    "whatif_ms": 100,
    "own_assets_kb": 300,
    "first_usable_ms": 1000,
    "open_longest_task_ms": 100,
    "bytes_per_token": 2048,
    "bytes_per_token_watched": 4096,
}


@dataclass(frozen=True)
class Figure:
    """A value, and the smallest and largest sample it was made from."""

    value: float
    spread: tuple[float, float]

    def against(self, bound: float) -> dict[str, Any]:
        value, spread = round(self.value, 2), [round(one, 2) for one in self.spread]
        return {"value": value, "bound": bound, "reached": value <= bound, "spread": spread}


def exact(value: float) -> Figure:
    return Figure(value, (value, value))


def median(samples: Sequence[Sample], calibration: Calibration) -> Figure:
    """Of the quieter half."""
    values = [sample.value for sample in calibration.quieter_half(samples)]
    return Figure(statistics.median(values), (min(values), max(values)))


def largest(samples: Sequence[Sample], calibration: Calibration) -> Figure:
    """Of the quieter half."""
    values = [sample.value for sample in calibration.quieter_half(samples)]
    return Figure(max(values), (min(values), max(values)))


def percentile_95(samples: Sequence[Sample], calibration: Calibration) -> Figure:
    """Of the quieter half."""
    values = [sample.value for sample in calibration.quieter_half(samples)]
    return Figure(statistics.quantiles(values, n=20)[-1], (min(values), max(values)))


def long_tasks(recordings: Sequence[Recording], calibration: Calibration) -> Figure:
    """In the quieter half of the seconds that were watched; beside it how many there were in all of them."""
    seconds = [
        Sample(0, recording.start + i, recording.start + i + 1)
        for recording in recordings
        for i in range(visits.STREAM_S)
    ]
    quiet = calibration.quieter_half(seconds)
    found = [task for recording in recordings for task in recording.long_tasks()]
    in_quiet = [task for task in found if any(second.start <= task.start < second.end for second in quiet)]
    return Figure(len(in_quiet), (len(in_quiet), len(found)))


def own_assets() -> Figure:
    """Thousands of bytes of all scripts, style sheets and data that stand in static/."""
    files = [path for path in (ROOT / "static").rglob("*") if path.suffix in (".js", ".css", ".json")]
    size = sum(path.stat().st_size for path in files) / 1e3
    return exact(size)


def prompt_of(num_tokens: int) -> str:
    """About so many tokens of ordinary words."""
    words = ("the", "old", "river", "runs", "past", "a", "quiet", "town", "where", "green", "gardens", "grow")
    story = " ".join(words[number % len(words)] for number in range(num_tokens - 60))
    return f"{story}. Tell me a long story about this river and its gardens."


def measure(browser: Browser, calibration: Calibration) -> dict[str, Figure]:
    with running_site(
        WEBTRACE_FAKE_TEXT=SPOKEN, WEBTRACE_FAKE_RATE=str(RATE), WEBTRACE_GUEST_MAX_TOKENS=str(STREAMED)
    ) as site:
        first = visits.first_view(browser, site)
        streams = [visits.stream(browser, site, num_tokens=STREAMED) for _ in range(STREAMS)]
        opened = visits.open_finished(browser, site, num_tokens=OPENED)
    with running_site(WEBTRACE_ENGINE="model") as site:
        inside = visits.look_inside(browser, site, prompt_of(CONTEXT))
    return {
        "long_tasks": long_tasks(streams, calibration),
        "frame_script_p95_ms": percentile_95(
            [frame for stream in streams for frame in stream.script_per_frame()], calibration
        ),
        "head_to_map_ms": median(inside.maps, calibration),
        "whatif_ms": median(inside.what_ifs, calibration),
        "own_assets_kb": own_assets(),
        "first_usable_ms": median(first, calibration),
        "open_longest_task_ms": largest(opened, calibration),
        "bytes_per_token": exact(inside.bytes_per_token),
        "bytes_per_token_watched": exact(inside.bytes_per_token_watched),
    }


def chromium() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    raise SystemExit("Chromium is not installed.")


def main() -> None:
    expect.set_options(timeout=30_000)
    with calibrating() as calibration, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"])
        figures = measure(browser, calibration)
        version = browser.version
        browser.close()
    reached = {name: figures[name].against(bound) for name, bound in BOUNDS.items()}
    result = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "processor": platform.processor() or platform.machine(),
            "cores": os.cpu_count(),
            "system": platform.platform(),
            "python": platform.python_version(),
            "chromium": version,
            "calibration": calibration.summary(),
        },
        "figures": reached,
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    for name, one in reached.items():
        verdict = "reached" if one["reached"] else "MISSED"
        print(f"{name:24} {one['value']:10} ≤ {one['bound']:5}  {verdict}  {one['spread']}")
    print(f"written to {RESULTS.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
