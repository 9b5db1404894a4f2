"""How light and quick is the page? A fake decoder feeds the real service, Chromium visits it, in one run.

    make bench-page        (or python -m benchmarks.page)

Absolute figures are those of the quieter half of a run, by the calibration that is timed beside it. What needs tensors,
maps and what-ifs, is asked of the real model. Writes benchmarks/results/page.json.
"""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Browser, expect, sync_playwright

from benchmarks import page_visits as visits
from benchmarks.figures import Figure, of_values
from benchmarks.main_thread import LONG_MS, Recording
from benchmarks.quiet import Sample, Watch, watching
from benchmarks.record import save, table
from tests.service.site import ROOT, running_site
from webtrace import esbuild
from webtrace.published import publish

RESULTS = Path(__file__).parent / "results" / "page.json"
RATE = 100  # tokens a second
STREAMED, OPENED = 4000, 1000  # tokens; the stream is stopped when it has been watched long enough
STREAMS = 2
CONTEXT = 512  # tokens of the prompt whose maps are drawn
SPOKEN = " ".join(f"word {number} of a long story," for number in range(1000))


def of_samples(key: str, samples: Sequence[Sample], watch: Watch, judge: Callable[[list[float]], float]) -> Figure:
    """What `judge` says of the quieter half, with its smallest and largest value."""
    quiet = watch.quieter_half(samples)
    values = [sample.value for sample in quiet]
    note = f"least to most of the quieter {len(values)} of {len(samples)}"
    processor = [sample.processor for sample in quiet if sample.processor is not None]
    if processor:
        note += f"; {judge(processor):.3g} of processor time"
    return Figure(key, judge(values), (min(values), max(values)), note)


def percentile_95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[-1]


def long_tasks(recordings: Sequence[Recording], watch: Watch) -> Figure:
    """In the quieter half of the seconds that were watched; beside it how many there were in all of them."""
    starts = [recording.start + second for recording in recordings for second in range(visits.STREAM_S)]
    quiet = watch.quieter_half([Sample(0, start, start + 1) for start in starts])
    found = [task for recording in recordings for task in recording.long_tasks()]
    in_quiet = [task for task in found if any(second.start <= task.start < second.end for second in quiet)]
    busy = sum(task.processor is not None and task.processor > LONG_MS for task in found)
    note = f"in the quieter {len(quiet)} of {len(starts)} seconds, and in all of them; {busy} by processor time"
    return Figure("long_tasks", len(in_quiet), (len(in_quiet), len(found)), note)


def own_assets() -> Figure:
    """Thousands of bytes of all scripts and style sheets in static/, as they are sent, before compression."""
    files = [path for path in (ROOT / "static").rglob("*") if path.suffix in (".js", ".css")]
    with TemporaryDirectory() as folder:
        size = sum(publish(path, Path(folder)).stat().st_size for path in files) / 1e3
    written = sum(path.stat().st_size for path in files) / 1e3
    how = f"shortened by esbuild {esbuild.version()}" if esbuild.version() else "there is no esbuild"
    note = f"{len(files)} files, of which a page loads what it shows; {how}, {written:.0f} as written"
    return Figure("own_assets_kb", size, (size, size), note)


def prompt_of(num_tokens: int) -> str:
    """About so many tokens of ordinary words."""
    words = ("the", "old", "river", "runs", "past", "a", "quiet", "town", "where", "green", "gardens", "grow")
    story = " ".join(words[number % len(words)] for number in range(num_tokens - 60))
    return f"{story}. Tell me a long story about this river and its gardens."


def measure(browser: Browser, watch: Watch) -> list[Figure]:
    with running_site(
        WEBTRACE_FAKE_TEXT=SPOKEN, WEBTRACE_FAKE_RATE=str(RATE), WEBTRACE_GUEST_MAX_TOKENS=str(STREAMED)
    ) as site:
        first = visits.first_view(browser, site)
        streams = [visits.stream(browser, site, num_tokens=STREAMED) for _ in range(STREAMS)]
        opened = visits.open_finished(browser, site, num_tokens=OPENED)
    with running_site(WEBTRACE_ENGINE="model") as site:
        inside = visits.look_inside(browser, site, prompt_of(CONTEXT))
    frames = [frame for one in streams for frame in one.script_per_frame()]
    return [
        long_tasks(streams, watch),
        of_samples("frame_script_p95_ms", frames, watch, percentile_95),
        of_samples("head_to_map_ms", inside.maps, watch, statistics.median),
        of_samples("whatif_ms", inside.what_ifs, watch, statistics.median),
        own_assets(),
        of_samples("first_usable_ms", first, watch, statistics.median),
        of_samples("open_longest_task_ms", opened, watch, max),
        *(of_values(name, [getattr(inside, name)]) for name in ("bytes_per_token", "bytes_per_token_watched")),
    ]


def chromium() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    raise SystemExit("Chromium is not installed.")


def main() -> None:
    expect.set_options(timeout=30_000)
    with watching() as watch, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"])
        figures = measure(browser, watch)
        about = {"chromium": browser.version, "calibration_ms": watch.calibration.summary()}
        browser.close()
    print(table(figures))
    save(RESULTS, figures, about)


if __name__ == "__main__":
    main()
