"""Chromium, and the two sites it visits: one that speaks a given text, one with the real model.

Everything here lives as long as this folder's tests: Playwright's event loop must be gone before coroutines of other
tests run in the same thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Page, Request, expect, sync_playwright

from tests.require import missing
from tests.service.site import Site, running_site

ARTEFACTS = Path(__file__).resolve().parents[2] / "artefacts"
# What the fake engine says: hostile markup, a remote image, two directions, characters split over tokens, code.
SPOKEN = (
    "Here is a list of words: red, green, blue, yellow and black.\n\n"
    "<img src=x onerror=alert(1)> [click](javascript:alert(1)) ![remote](http://192.0.2.1/a.png)\n\n"
    "سلام، این یک hello آزمایش است. 👩‍👩‍👧 한국어\n\n"
    "```python\nprint('one')\n```\n\nThat was **all** of it."
)
RATE = 60  # tokens a second: slow enough to see it stream, fast enough to wait for
Open = Callable[..., Page]
TWO_FRAMES = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done())))"

expect.set_options(timeout=15_000)


@pytest.fixture(scope="package")
def browser(chromium: str) -> Iterator[Browser]:
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium, args=arguments)
        yield launched
        launched.close()


@pytest.fixture(scope="package")
def site() -> Iterator[Site]:
    """A site whose engine speaks SPOKEN."""
    with running_site(WEBTRACE_FAKE_TEXT=SPOKEN, WEBTRACE_FAKE_RATE=str(RATE)) as running:
        yield running


@pytest.fixture(scope="package")
def real_site() -> Iterator[Site]:
    """A site with the model itself."""
    models = Path(os.environ.get("WEBTRACE_DATA", ARTEFACTS.parent / "data")) / "models"
    if not models.is_dir():
        missing("checkpoints", f"there are none in {models}: run `python manage.py setup --checkpoints-only`")
    with running_site(WEBTRACE_ENGINE="model") as running:
        yield running


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Open]:
    """`open_page(site, "/", width=1440, height=900, scheme="light", context=…)` visits as somebody new, unless a
    context is given. At the end no page may have had an error, a dialog, or asked anybody else for anything."""
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def visit(
        site: Site,
        path: str = "/",
        *,
        width: int = 1440,
        height: int = 900,
        scheme: str = "light",
        context: BrowserContext | None = None,
        prepare: Callable[[Page], None] | None = None,
    ) -> Page:
        if context is None:
            context = browser.new_context(
                viewport={"width": width, "height": height},
                color_scheme="dark" if scheme == "dark" else "light",
                reduced_motion="reduce",
            )
            contexts.append(context)
        page = context.new_page()
        _watch(page, site, complaints)
        if prepare is not None:
            prepare(page)
        page.goto(site.url + path)
        return page

    yield visit
    for context in contexts:
        context.close()
    assert complaints == []


def _watch(page: Page, site: Site, complaints: list[str]) -> None:
    def heard(message: ConsoleMessage) -> None:
        # The browser logs every HTTP status above 399 by itself; what a page does about one is tested where it is due.
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            complaints.append(f"console: {message.text}")

    def asked(dialog: Dialog) -> None:
        complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def requested(request: Request) -> None:
        if not request.url.startswith((site.url, "data:", "blob:")):
            complaints.append(f"request to {request.url}")

    page.on("console", heard)
    page.on("pageerror", lambda error: complaints.append(f"error: {error.stack or error}"))
    page.on("dialog", asked)
    page.on("request", requested)


def ask(page: Page, text: str) -> None:
    """Type a prompt and send it."""
    page.get_by_label("Prompt", exact=True).fill(text)
    page.keyboard.press("Enter")
    page.evaluate(TWO_FRAMES)  # then what the page makes of it is drawn, and no earlier answer is taken for this one's


def last_state(page: Page) -> str:
    return page.locator(".answer-state").last.inner_text()


def await_end(page: Page, words: str = "Complete") -> None:
    """Wait until the newest answer has ended, as the page says."""
    expect(page.locator(".answer-state").last).to_contain_text(words)


def await_streaming(page: Page, num_tokens: int = 1) -> None:
    """Wait until at least this many tokens of the newest answer are there, and it is not finished."""
    expect(page.locator(".answer-tokens").last.locator(".token").nth(num_tokens - 1)).to_be_attached()
    assert "Streaming" in last_state(page)


def keep_screenshot(page: Page, name: str) -> None:
    ARTEFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTEFACTS / f"{name}.png")
