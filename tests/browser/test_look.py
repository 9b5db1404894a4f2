"""Sizes, themes, keyboard and addresses of the page."""

from __future__ import annotations

import json
import uuid

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Open, ask, await_end, keep_screenshot
from tests.service.site import Site

pytestmark = pytest.mark.browser

STAGES = ("request", "prompt", "tokens", "softmax", "sampling", "append", "storage")


def assert_fits(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def keep_in_both_themes(page: Page, name: str) -> None:
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        keep_screenshot(page, f"{name}-{scheme}")


@pytest.mark.parametrize("width", [320, 360, 768, 1024, 1440, 2560])
def test_no_width_scrolls_sideways(site: Site, open_page: Open, width: int) -> None:
    page = open_page(site, width=width, height=800)
    expect(page.locator(".connection[data-state=open]")).to_be_attached()
    assert_fits(page)
    ask(page, "a_very_long_word_without_any_place_to_break_it_" * 6)
    await_end(page)
    assert_fits(page)
    keep_in_both_themes(page, f"answer-{width}")
    if width < 760:
        page.get_by_role("tab", name="Inside").click()
        expect(page.locator(".chat")).to_be_hidden()
    for slug in STAGES:
        page.locator(f"[data-slug={slug}]").click()
        expect(page.locator(f"#stage-{slug}")).to_be_visible()
        assert_fits(page)
    keep_in_both_themes(page, f"inside-{width}")
    for name in ("reading", "misconceptions", "meaning"):
        page.evaluate("address => { location.hash = address; }", f"#page={name}")
        expect(page.locator(f"#page-{name} .page-body > *").first).to_be_visible()
        assert_fits(page)


@pytest.mark.parametrize("width", [320, 768, 1440])
def test_the_composer_stays_in_its_pane(site: Site, open_page: Open, width: int) -> None:
    sampling = json.dumps({"temperature": 0.85, "top_k": 50, "top_p": 0.95, "seed": 123456789, "max_tokens": 250})
    store = f"localStorage.setItem('sampling', {json.dumps(sampling)})"
    page = open_page(site, width=width, height=800, prepare=lambda page: page.add_init_script(store))
    expect(page.locator(".settings-summary")).to_contain_text("seed")
    pane, button = page.locator(".chat").bounding_box(), page.locator(".send-button:visible").bounding_box()
    assert pane is not None
    assert button is not None
    assert button["x"] + button["width"] <= pane["x"] + pane["width"]


def test_where_the_system_sets_all_colours_those_of_data_still_differ(site: Site, browser: Browser) -> None:
    context = browser.new_context(forced_colors="active", color_scheme="dark")
    page = context.new_page()
    page.goto(site.url)
    colours = page.evaluate(
        "import('/static/js/colours.js').then(({ scale }) => [0, 0.5, 1].map((at) => scale('sequential')(at).join()))"
    )
    assert len(set(colours)) == 3
    context.close()


TOUCHING = """() => [".stretch-name", ".station-time"].flatMap((kind) => {
  const boxes = [...document.querySelectorAll(kind)].filter((node) => node.checkVisibility() && node.textContent !== "")
    .map((node) => {
      const range = document.createRange();
      range.selectNodeContents(node);
      return [range.getBoundingClientRect(), node.textContent];
    });
  return boxes.slice(1).flatMap(([box, text], index) => {
    const [before, name] = boxes[index];
    return box.top < before.bottom && box.left < before.right ? [[name, text]] : [];
  });
})"""


@pytest.mark.parametrize("width", [1001, 1024, 1180, 1440])
def test_names_and_times_of_the_map_do_not_touch(site: Site, open_page: Open, width: int) -> None:
    page = open_page(site, width=width, height=800)
    ask(page, "hello")
    await_end(page)
    assert page.evaluate(TOUCHING) == []
    tops = page.locator(".station").evaluate_all("all => all.map((one) => one.getBoundingClientRect().top)")
    assert len(set(tops)) == 2


# Of what can be pressed, all but tokens, which stand in a text: width and height on the screen, and what it is.
PRESSED = "button:not(.token), select, .button, .topbar a, .page-links a, .station"
SMALL = """kinds => [...document.querySelectorAll(kinds)]
  .filter((node) => node.checkVisibility({ visibilityProperty: true }))
  .map((node) => [node.getBoundingClientRect(), node.className, node.textContent.slice(0, 40)])
  .filter(([{ width, height }]) => height < 39.9 || width < 24)
  .map(([box, ...rest]) => [box.width, box.height, ...rest])"""


def test_a_finger_finds_what_can_be_pressed(site: Site, browser: Browser) -> None:
    context = browser.new_context(
        viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True, reduced_motion="reduce"
    )
    page = context.new_page()
    page.goto(site.url)
    assert page.evaluate(SMALL, PRESSED) == []
    ask(page, "hello")
    await_end(page)
    assert page.evaluate(SMALL, PRESSED) == []
    page.get_by_role("tab", name="Inside").click()
    page.locator("[data-slug=softmax]").click()
    expect(page.locator("[data-picker=head]")).to_be_visible()
    assert page.evaluate(SMALL, PRESSED) == []
    context.close()


def test_the_end_of_a_stage_leads_to_the_next(site: Site, open_page: Open) -> None:
    page = open_page(site)
    page.get_by_role("link", name="Next: The gateway").click()
    expect(page.locator("#stage-gateway")).to_be_visible()
    page.locator("[data-slug=storage]").click()
    expect(page.locator("#stage-storage")).to_be_visible()
    expect(page.get_by_role("link", name="Next: ")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast_in_both_themes(site: Site, open_page: Open, scheme: str) -> None:
    page = open_page(site, scheme=scheme)
    ask(page, "hello")
    await_end(page)
    keep_screenshot(page, f"answer-{scheme}")
    ratios = page.evaluate(CONTRAST)
    assert len(ratios) > 50
    assert [found for found in ratios if found[0] < 4.5] == []


# Ratio of every visible text to the nearest painted ground behind it, as WCAG counts it.
CONTRAST = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (colour, under) => {
    canvas.clearRect(0, 0, 1, 1);
    if (under) { canvas.fillStyle = `rgb(${under})`; canvas.fillRect(0, 0, 1, 1); }
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const luminance = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const ground = (node) => {
    const layers = [];
    for (; node; node = node.parentElement) {
      const colour = getComputedStyle(node).backgroundColor;
      layers.push(colour);
      if (rgb(colour)[3] === 255) break;
    }
    return layers.reduceRight((under, colour) => rgb(colour, under).slice(0, 3), null);
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = [];
  while (texts.nextNode()) {
    const node = texts.currentNode.parentElement;
    const text = texts.currentNode.data.trim();
    const left = node.closest("svg, .visually-hidden, :disabled, script") !== null;
    const shown = !left && node.checkVisibility({ visibilityProperty: true });
    if (text === "" || !shown) continue;
    const under = ground(node);
    const pair = [luminance(rgb(getComputedStyle(node).color, under)), luminance(under)].sort((a, b) => b - a);
    found.push([(pair[0] + 0.05) / (pair[1] + 0.05), text.slice(0, 40), node.className]);
  }
  return found;
}"""


def test_the_theme_is_chosen_and_kept(site: Site, open_page: Open) -> None:
    page = open_page(site, scheme="light")
    light = page.locator("body").evaluate("body => getComputedStyle(body).backgroundColor")
    page.get_by_role("button", name="Theme: system").click()
    page.get_by_role("button", name="Theme: light").click()
    expect(page.locator("body")).not_to_have_css("background-color", light)
    dark = page.locator("body").evaluate("body => getComputedStyle(body).backgroundColor")
    page.reload()
    expect(page.get_by_role("button", name="Theme: dark")).to_be_visible()
    expect(page.locator("body")).to_have_css("background-color", dark)


def test_everything_is_reached_by_keyboard(site: Site, open_page: Open) -> None:
    page = open_page(site)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the prompt")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Prompt", exact=True)).to_be_focused()
    page.keyboard.type("line one")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("line two")
    page.keyboard.press("Enter")
    expect(page.locator(".message-user .message-text")).to_have_text("line one\nline two")
    await_end(page)
    page.locator("[data-slug=request]").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator("[data-slug=retrieval]")).to_be_focused()
    expect(page.locator("#stage-retrieval")).to_be_visible()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#stage-gateway")).to_be_visible()
    slider = page.get_by_role("slider", name="Step")
    slider.focus()
    page.keyboard.press("Home")
    expect(page.locator(".scrubber-place")).to_contain_text("step 0 of")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".scrubber-place")).to_contain_text("step 1 of")
    expect(page.locator(".answer-tokens .token-selected")).to_have_attribute("data-step", "1")
    page.locator(".answer-tokens .token").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.locator(".scrubber-place")).to_contain_text("step 2 of")


def test_an_address_restores_what_was_seen(site: Site, open_page: Open) -> None:
    page = open_page(site)
    ask(page, "hello")
    await_end(page)
    page.locator("[data-slug=softmax]").click()
    page.get_by_role("slider", name="layer").fill("0")
    page.get_by_role("slider", name="Step").fill("5")
    assert page.url.endswith("#stage=softmax&layer=0&step=5")
    address = page.url.removeprefix(site.url)
    other = open_page(site, address, context=page.context)
    expect(other.locator("#stage-softmax")).to_be_visible()
    expect(other.locator(".scrubber-place")).to_contain_text("step 5 of")
    expect(other.locator("[data-picker=layer] output")).to_contain_text("0 of")
    page.locator("[data-slug=scores]").click()
    page.go_back()
    expect(page.locator("#stage-softmax")).to_be_visible()


def test_reading_is_not_pulled_to_the_end(site: Site, open_page: Open) -> None:
    page = open_page(site, height=420)
    ask(page, "hello")
    expect(page.locator(".answer-tokens .token").nth(30)).to_be_attached()
    scroller = page.locator(".chat-scroll")
    scroller.evaluate("node => { node.scrollTop = 0; }")
    await_end(page)
    assert scroller.evaluate("node => node.scrollTop") == 0


def test_the_account_pages_share_the_look(site: Site, open_page: Open) -> None:
    page = open_page(site, "/accounts/signup/", width=360, height=740)
    assert_fits(page)
    name = f"visitor-{uuid.uuid4().hex[:8]}"
    page.get_by_label("Username").fill(name)
    page.get_by_label("Password:", exact=True).fill("a long enough phrase")
    page.get_by_label("Password confirmation").fill("a long enough phrase")
    page.get_by_role("button", name="Sign up").click()
    expect(page.get_by_role("link", name=name)).to_be_visible()
    page.goto(f"{site.url}/accounts/keys/")
    page.get_by_role("button", name="Make a key").click()
    expect(page.locator("[data-name=new-key]")).to_contain_text("wt_")
    assert_fits(page)
