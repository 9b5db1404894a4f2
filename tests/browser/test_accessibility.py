"""axe-core on the main journeys: nothing serious, in any theme."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import ask, await_end, keep_screenshot
from tests.service.site import Site

pytestmark = pytest.mark.browser

SERIOUS = {"serious", "critical"}
STAGES = ("tokens", "sampling", "append")
PAGES = ("Read", "Table", "Misconceptions", "Numbers")


def faults(page: Page) -> list[str]:
    """What axe finds serious or worse on the page as it is now."""
    found: list[dict[str, Any]] = Axe().run(page).response["violations"]
    return [
        f"{one['id']}: {one['help']}: {node['html'][:160]}"
        for one in found
        if one["impact"] in SERIOUS
        for node in one["nodes"]
    ]


def test_nothing_serious_on_the_way_through_an_answer(site: Site, browser: Browser) -> None:
    context = browser.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    page = context.new_page()
    page.goto(site.url)
    expect(page.locator(".connection[data-state=open]")).to_be_attached()
    assert faults(page) == []
    ask(page, "Tell me a political joke")
    await_end(page)
    page.get_by_title("Settings of the next answer").click()
    assert faults(page) == []
    page.keyboard.press("Escape")
    for slug in STAGES:
        page.locator(f".station[data-slug={slug}]").click()
        expect(page.locator(f"#stage-{slug} .stage-picture > *").first).to_be_visible()
        assert faults(page) == []
    for title in PAGES:
        page.get_by_role("link", name=title, exact=True).click()
        expect(page.locator(".page h3, .page tbody").first).to_be_visible()
        assert faults(page) == []
    context.close()


@pytest.mark.parametrize("look", ["dark", "contrast", "forced"])
def test_nothing_serious_in_other_looks(site: Site, browser: Browser, look: str) -> None:
    context = browser.new_context(
        viewport={"width": 360, "height": 740},
        reduced_motion="reduce",
        color_scheme="dark" if look == "dark" else "light",
        contrast="more" if look == "contrast" else "no-preference",
        forced_colors="active" if look == "forced" else "none",
    )
    page = context.new_page()
    page.goto(site.url)
    ask(page, "سلام، این hello است")
    await_end(page)
    assert faults(page) == []
    page.get_by_role("tab", name="Inside").click()
    page.locator(".station[data-slug=tokens]").click()
    expect(page.locator("#stage-tokens .stage-picture > *").first).to_be_visible()
    assert faults(page) == []
    # A station that has run is told from the page, also where the system sets the colours.
    ground = "node => getComputedStyle(node).backgroundColor"
    done = page.locator(".station[data-state=done] .station-mark").first
    assert done.evaluate(ground) != page.locator("body").evaluate(ground)
    keep_screenshot(page, f"inside-{look}")
    context.close()
