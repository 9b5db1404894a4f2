"""Pausing a request in a real browser: breakpoints at stages and steps, the hold itself, and its end."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Open, ask, await_end, keep_screenshot
from tests.browser.wire import Event, Script, Wire
from tests.service.site import Site

pytestmark = pytest.mark.browser


def held(page: Page, words: str) -> None:
    """The page says where the request stands, has turned there, and counts down."""
    hold = page.get_by_role("group", name="The request that is held")
    expect(hold.get_by_role("status")).to_have_text(words)
    expect(hold).to_contain_text(re.compile(r"goes on by itself in ([1-5]?\d|60) seconds"))
    expect(page.locator(".answer-state").last).to_contain_text(f"{words}:")


def press(page: Page, name: str) -> None:
    page.get_by_role("group", name="The request that is held").get_by_role("button", name=name).click()


def test_a_request_is_held_at_the_stages_chosen_on_the_map_while_another_runs_on(site: Site, open_page: Open) -> None:
    page = open_page(site)
    page.locator(".station[data-slug=tokens]").click(button="right")
    page.locator(".station[data-slug=softmax]").click()
    page.keyboard.press("b")
    points = page.get_by_role("group", name="Breakpoints")
    expect(points).to_contain_text("Softmax ×")
    expect(page.get_by_role("button", name="Hold the next request after this stage")).to_have_attribute(
        "aria-pressed", "true"
    )
    expect(page.locator(".station[data-breakpoint]")).to_have_count(2)
    points.get_by_label("Step to hold after").fill("3")
    page.keyboard.press("Enter")
    expect(points).to_contain_text("Sampling, step 3 ×")
    ask(page, "hello")
    tokens, softmax = (page.locator(f".station[data-slug={slug}]") for slug in ("tokens", "softmax"))
    held(page, f"Held after {tokens.get_attribute('title')}")
    expect(tokens).to_have_attribute("data-state", "held")
    expect(page.locator("#stage-tokens .stage-state")).to_be_hidden()
    expect(softmax).to_have_attribute("data-state", "waiting")
    expect(page.locator(".station[data-state=running]")).to_have_count(0)
    keep_screenshot(page, "hold-1440")

    other = open_page(site)
    ask(other, "hello")
    await_end(other)
    held(page, f"Held after {tokens.get_attribute('title')}")

    press(page, "Next")
    held(page, f"Held after {page.locator('.station[data-slug=token_ids]').get_attribute('title')}")
    page.set_viewport_size({"width": 360, "height": 740})
    expect(page.locator("html")).to_have_js_property("scrollWidth", 360)
    keep_screenshot(page, "hold-360")
    page.set_viewport_size({"width": 1440, "height": 900})
    press(page, "Run")  # to the next breakpoint
    held(page, f"Held after {softmax.get_attribute('title')}, step 0")
    page.get_by_role("group", name="Breakpoints").get_by_role("button", name="Clear").click()
    expect(points).to_be_hidden()
    press(page, "Run")
    await_end(page)
    expect(page.get_by_role("group", name="The request that is held")).to_be_hidden()
    expect(tokens).to_have_attribute("data-state", "done")


def test_a_hold_after_a_token_survives_a_reload_and_stop_ends_it(site: Site, open_page: Open) -> None:
    page = open_page(site)
    ask(page, "hello")
    await_end(page)
    page.locator(".answer-tokens [data-step='4']").click()
    page.get_by_role("button", name="Hold the next request after this step").click()
    page.get_by_role("button", name="Answer again").click()
    held(page, "Held after Sampling, step 4")
    expect(page.locator(".answer-tokens .token")).to_have_count(5)
    expect(page.locator(".scrubber-place")).to_have_text("step 4 of 0–4")
    page.reload()
    held(page, "Held after Sampling, step 4")
    press(page, "Next")
    held(page, "Held after Sampling, step 5")
    expect(page.locator(".answer-tokens .token")).to_have_count(6)
    press(page, "Stop")
    await_end(page, "Stopped")
    expect(page.get_by_role("group", name="The request that is held")).to_be_hidden()


def marked(page: Page) -> list[str | None]:
    return [one.get_attribute("data-slug") for one in page.locator(".station[data-breakpoint]").all()]


def test_breakpoints_survive_a_reload_and_run_goes_to_the_next(site: Site, open_page: Open) -> None:
    page = open_page(site)
    for slug in ("prompt", "tokens", "softmax"):
        page.locator(f".station[data-slug={slug}]").click(button="right")
    ask(page, "hello")
    points = page.get_by_role("group", name="Breakpoints")
    held(page, f"Held after {page.locator('.station[data-slug=prompt]').get_attribute('title')}")
    page.reload()
    expect(points).to_contain_text("Softmax ×")
    assert marked(page) == ["prompt", "tokens", "softmax"]
    page.locator(".station[data-slug=tokens]").click(button="right")  # taken back while it is held
    press(page, "Run")
    held(page, "Held after Softmax, step 0")
    page.reload()
    expect(points).to_contain_text("Softmax ×")
    assert marked(page) == ["prompt", "softmax"]
    press(page, "Next")
    held(page, "Held after Weighted sum, step 0")
    press(page, "Run")
    await_end(page)
    assert marked(page) == ["prompt", "softmax"]  # for the next request


def test_either_of_two_tabs_lets_a_held_response_go_on(site: Site, open_page: Open) -> None:
    page = open_page(site)
    ask(page, "hello")
    await_end(page)
    other = open_page(site, page.url.removeprefix(site.url).split("#")[0], context=page.context)
    await_end(other)
    for slug in ("prompt", "tokens", "softmax"):
        page.locator(f".station[data-slug={slug}]").click(button="right")
    ask(page, "and again")
    for tab in (page, other):
        held(tab, f"Held after {page.locator('.station[data-slug=prompt]').get_attribute('title')}")
        expect(tab.locator("#stage-prompt")).to_be_visible()
    expect(other.get_by_role("group", name="Breakpoints")).to_contain_text("Softmax ×")
    other.locator(".station[data-slug=tokens]").click(button="right")
    press(other, "Run")
    for tab in (other, page):
        held(tab, "Held after Softmax, step 0")
    expect(page.get_by_role("group", name="Breakpoints")).not_to_contain_text("Tokens")
    press(page, "Next")
    for tab in (page, other):
        held(tab, "Held after Weighted sum, step 0")
    press(other, "Stop")
    for tab in (page, other):
        await_end(tab, "Stopped")
        expect(tab.get_by_role("group", name="The request that is held")).to_be_hidden()


def test_a_wish_to_go_on_that_was_lost_or_refused_can_be_repeated(site: Site, open_page: Open) -> None:
    wires: list[Wire] = []
    page = open_page(site, prepare=lambda new: wires.append(Wire(new)))
    (wire,) = wires
    place = {"stage": "gateway", "step": None}

    def answer(frame: Event) -> None:
        if frame["type"] == "response.create":
            script = Script("one", frame)
            script.begin()
            script.add("response.held", **place, reason="breakpoint", releases_after_s=60.0)
            wire.send(*script.events)

    wire.answer = answer
    ask(page, "hello")
    go_on = page.get_by_role("group", name="The request that is held").get_by_role("button", name="Next")
    go_on.click()
    expect(go_on).to_be_disabled()
    wire.send({"type": "error", "code": "not_held", "message": "no", "event_id": wire.frames[-1]["event_id"]})
    expect(go_on).to_be_enabled()
    go_on.click()
    expect(go_on).to_be_disabled()
    wire.lose()
    expect(go_on).to_be_enabled()  # once it is connected again
    assert [frame["type"] for frame in wire.frames].count("response.continue") == 2


def test_the_countdown_follows_the_clock_and_time_held_is_no_latency(site: Site, open_page: Open) -> None:
    wires: list[Wire] = []

    def prepare(page: Page) -> None:
        page.clock.install()
        wires.append(Wire(page))

    page = open_page(site, prepare=prepare)
    (wire,) = wires
    scripts: list[Script] = []
    place = {"stage": "gateway", "step": None}

    def answer(frame: Event) -> None:
        if frame["type"] == "response.create":
            scripts.append(script := Script("one", frame))
            script.begin()
            script.add("response.held", **place, reason="breakpoint", releases_after_s=60.0)
            wire.send(*script.events)
        elif frame["type"] == "response.continue":
            (script,) = scripts
            continued = script.add("response.continued", **place, by="request", held_ms=30_000.0)
            wire.send(continued, script.say("Hi."), script.step(0, "Hi."), script.end("Hi."))

    wire.answer = answer
    ask(page, "hello")
    hold = page.get_by_role("group", name="The request that is held")
    expect(hold).to_contain_text(re.compile(r"by itself in (60|5\d) seconds"))
    page.clock.fast_forward(30_000)
    expect(hold).to_contain_text(re.compile(r"by itself in (30|2\d) seconds"))
    press(page, "Run")
    assert wire.frames[-1]["until"] == "end"
    await_end(page)
    took = re.search(r"in ([\d.]+)\s*(ms|s)", page.locator(".answer-state").last.inner_text())
    assert took is not None
    assert float(took[1]) / (1000 if took[2] == "ms" else 1) < 30
