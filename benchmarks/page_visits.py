"""What somebody does on the page while it is measured: each visit gives samples of one figure."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from playwright.sync_api import Browser, BrowserContext, Page, WebSocket, expect

from benchmarks.main_thread import Recording, recorded
from benchmarks.quiet import Sample
from tests.service.site import Site

LIVE_STAGES = ("append", "probabilities", "sampling", "logits", "detokenize")  # follow every token
STREAM_S = 20
ANSWER = 200  # tokens, as many as an answer may have when nothing else is asked for
OPENINGS = 8
HEADS, LAYERS = range(9), (3, 11, 19, 27)
SLIDER_MOVES = 24
END = re.compile("Complete|Cut")
ATTEMPTS = 8  # at an answer that is long enough: some end early, or are ended by output safety
LONG_ENOUGH = 120  # tokens
# Resolves with the milliseconds from `act()` to the frame after the first change that `changed()` agrees with.
UNTIL_SHOWN = """(act, root, changed) => new Promise((resolve) => {
  const start = performance.now();
  new MutationObserver((_, observer) => {
    if (!changed()) return;
    observer.disconnect();
    requestAnimationFrame(() => {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => resolve(performance.now() - start);
      port2.postMessage(0);
    });
  }).observe(root, { subtree: true, childList: true, attributes: true });
  act();
})"""
CLICK_HEAD = f"""(head) => {{
  const plot = document.querySelector("#stage-softmax .heatmap-plot");
  const before = plot.dataset.drawn;
  const button = document.querySelector(`.thumbnail-button[data-head="${{head}}"]`);
  return ({UNTIL_SHOWN})(() => button.click(), plot, () => plot.dataset.drawn !== before);
}}"""
MOVE_SLIDER = f"""(value) => {{
  const part = document.querySelector("#stage-sampling [data-part=what-if]");
  const slider = part.querySelector("input[type=range]");
  const chart = () => part.querySelector("[data-table=what-if-candidates]");
  const before = chart();
  const move = () => {{ slider.value = value; slider.dispatchEvent(new Event("input", {{ bubbles: true }})); }};
  return ({UNTIL_SHOWN})(move, part, () => chart() !== null && chart() !== before);
}}"""
# Notes the moment, in milliseconds after the navigation, of the frame after everything is there. Asked now and then:
# Playwright's own waiting would be part of what is measured.
NOTE_WHEN_THERE = """(selectors) => {
  if (window.looking) return;
  window.looking = true;
  const there = () => selectors.every((selector) => document.querySelector(selector) !== null);
  new MutationObserver((_, observer) => {
    if (!there()) return;
    observer.disconnect();
    requestAnimationFrame(() => { window.there = performance.now(); });
  }).observe(document, { subtree: true, childList: true, attributes: true });
}"""
LOOK_MS = 100
STORED = ".station[data-slug=storage][data-state=done]"
# Usable: a prompt can be typed and sent, the map of the journey stands, the service listens.
USABLE = ("#composer-input", ".station", ".stage h2", ".connection[data-state=open]")


class Received:
    """Bytes that the page's socket was sent since `clear()`."""

    def __init__(self, page: Page) -> None:
        self.num_bytes = 0
        page.on("websocket", self._listen)

    def clear(self) -> None:
        self.num_bytes = 0

    def _listen(self, socket: WebSocket) -> None:
        socket.on("framereceived", self._count)

    def _count(self, frame: str | bytes) -> None:
        self.num_bytes += len(frame.encode() if isinstance(frame, str) else frame)


@contextmanager
def visitor(browser: Browser, site: Site, *, max_tokens: int) -> Iterator[Page]:
    """Somebody new whose answers may have so many tokens; the page is not open yet."""
    context = _context(browser)
    sampling = json.dumps({"max_tokens": max_tokens})
    context.add_init_script(f"localStorage.getItem('sampling') ?? localStorage.setItem('sampling', '{sampling}')")
    yield context.new_page()
    context.close()


def _context(browser: Browser) -> BrowserContext:
    return browser.new_context(viewport={"width": 1440, "height": 900})


def stream(browser: Browser, site: Site, *, num_tokens: int) -> Recording:
    """Watch an answer grow with the trace open, going from one live stage to the next."""
    with visitor(browser, site, max_tokens=num_tokens) as page:
        page.goto(site.url)
        ask(page, "Tell me a long story")
        expect(page.locator(".answer-tokens .token").first).to_be_attached()
        with recorded(browser, page) as recorder:
            for slug in LIVE_STAGES:
                page.locator(f".station[data-slug={slug}]").click()
                page.wait_for_timeout(1000 * STREAM_S / len(LIVE_STAGES))
        expect(page.locator(".answer-state").last).to_contain_text("Streaming")
        page.keyboard.press("Escape")
        expect(page.locator(".answer-state").last).to_contain_text("Stopped")
        return recorder.recording


def first_view(browser: Browser, site: Site) -> list[Sample]:
    """Milliseconds from the navigation to a usable page, each time in a browser that has seen nothing yet."""
    samples = []
    for _ in range(OPENINGS):
        context = _context(browser)
        page = context.new_page()
        start = time.monotonic()
        samples.append(Sample(_open(page, site.url, USABLE), start, time.monotonic()))
        context.close()
    return samples


def _open(page: Page, address: str, selectors: Sequence[str]) -> float:
    """Milliseconds from the navigation to the frame in which all of these stand."""
    page.add_init_script(f"({NOTE_WHEN_THERE})({json.dumps(selectors)})")
    page.goto(address)
    while (there := page.evaluate("window.there ?? null")) is None:
        page.wait_for_timeout(LOOK_MS)
    return float(there)


def open_finished(browser: Browser, site: Site, *, num_tokens: int) -> list[Sample]:
    """The longest task, in milliseconds, of each opening of a finished answer."""
    samples = []
    with visitor(browser, site, max_tokens=num_tokens) as page:
        page.goto(site.url)
        answer(page, "Tell me a long story")
        address = page.url
        for _ in range(OPENINGS):
            page.goto("about:blank")
            with recorded(browser, page) as recorder:
                _open(page, address, (f".answer-tokens .token[data-step='{num_tokens - 1}']", ".prose", STORED))
                page.wait_for_timeout(1000)  # what follows, like the stage's picture
            samples.append(recorder.recording.longest_task())
    return samples


@dataclass(frozen=True)
class Inside:
    """Milliseconds from a click on a head to its map and from a slider to its chart; bytes pushed a token, and the
    same with one head watched."""

    maps: list[Sample]
    what_ifs: list[Sample]
    bytes_per_token: float
    bytes_per_token_watched: float


def look_inside(browser: Browser, site: Site, prompt: str) -> Inside:
    with visitor(browser, site, max_tokens=ANSWER) as page:
        received = Received(page)
        unwatched = _bytes_per_token(page, received, f"{site.url}/#stage=append", prompt)
        watched = _bytes_per_token(page, received, f"{site.url}/#stage=softmax", prompt)
        return Inside(_click_heads(page), _move_slider(page), unwatched, watched)


def _bytes_per_token(page: Page, received: Received, address: str, prompt: str) -> float:
    for _ in range(ATTEMPTS):
        page.goto("about:blank")
        page.goto(address)
        expect(page.locator(".connection[data-state=open]")).to_be_attached()
        received.clear()
        answer(page, prompt)
        num_tokens = page.locator(".answer-tokens .token").count()
        if num_tokens >= LONG_ENOUGH:
            return received.num_bytes / num_tokens
    raise SystemExit(f"None of {ATTEMPTS} answers had {LONG_ENOUGH} tokens.")


def _click_heads(page: Page) -> list[Sample]:
    samples = []
    page.locator(".station[data-slug=softmax]").click()
    for layer in LAYERS:
        page.evaluate("address => { location.hash = address; }", f"#stage=softmax&layer={layer}&head=8")
        expect(page.locator("#stage-softmax h4", has_text=f"The heads of layer {layer}")).to_be_visible()
        expect(page.locator("#stage-softmax .heatmap-plot[data-drawn]")).to_be_visible()
        page.wait_for_timeout(300)
        for head in HEADS[:-1]:
            start = time.monotonic()
            samples.append(Sample(page.evaluate(CLICK_HEAD, head), start, time.monotonic()))
            page.wait_for_timeout(50)
    return samples


def _move_slider(page: Page) -> list[Sample]:
    samples = []
    page.evaluate("location.hash = '#stage=sampling&step=20'")
    page.locator("#stage-sampling [data-part=what-if] summary").first.click()
    expect(page.locator("#stage-sampling [data-table=what-if-candidates]")).to_be_visible()
    for move in range(SLIDER_MOVES):
        start = time.monotonic()
        samples.append(Sample(page.evaluate(MOVE_SLIDER, 0.1 + 0.05 * move), start, time.monotonic()))
    return samples


def ask(page: Page, text: str) -> None:
    page.get_by_label("Prompt", exact=True).fill(text)
    page.keyboard.press("Enter")


def answer(page: Page, text: str) -> None:
    """Ask, and wait for the end."""
    ask(page, text)
    expect(page.locator(".answer-state").last).to_contain_text(END, timeout=120_000)
