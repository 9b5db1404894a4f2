"""A trace in somebody else's hands, in a real browser: behind a share link, and in a file without the service."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Open, ask, keep_screenshot
from tests.service.site import Site

pytestmark = pytest.mark.browser

SHORT = json.dumps({"max_tokens": 8, "seed": 7})
Kept = tuple[str, Path, list[str]]
TOKENS_WITHOUT_DATA = {"type": "trace.stage", "stage": "tokens", "epoch": 1, "sequence_number": 1}


@pytest.fixture(scope="module")
def kept(browser: Browser, real_site: Site, tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """An owner asks the real model, looks at one head, makes a link and saves a file: its link, the file, the chips."""
    page = browser.new_page(reduced_motion="reduce")
    page.add_init_script(f"localStorage.setItem('sampling', '{SHORT}')")
    page.goto(real_site.url + "/#stage=softmax&layer=3&head=2&step=4")
    ask(page, "The capital of France is")
    expect(page.locator(".answer-state")).to_contain_text(re.compile("Complete|Cut at"), timeout=60_000)
    expect(page.locator("#stage-softmax .heatmap-plot[data-drawn]")).to_be_visible()
    chips = page.locator(".answer-tokens .token").all_inner_texts()
    page.get_by_role("button", name="Share or save").click()
    page.get_by_role("button", name="Make a link").click()
    link = page.get_by_label("Link to this trace")
    expect(link).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as a file").click()
    file = tmp_path_factory.mktemp("traces") / "trace.json"
    download.value.save_as(file)
    address = link.input_value()
    keep_screenshot(page, "share-dialog")
    page.context.close()
    return address.removeprefix(real_site.url), file, chips


def test_a_link_holder_sees_the_trace_with_its_views_and_can_change_nothing(
    kept: Kept, real_site: Site, open_page: Open
) -> None:
    link, _, chips = kept
    page = open_page(real_site, link + "#stage=softmax&layer=5&head=1&step=2")
    expect(page.locator(".message-user .message-text")).to_have_text("The capital of France is")
    expect(page.locator(".answer-tokens .token")).to_have_count(len(chips))
    expect(page.locator("#stage-softmax .heatmap-plot[data-drawn]")).to_be_visible()
    expect(page.locator("#stage-softmax")).to_contain_text("layer 5")
    for name in ("Answer again", "Edit and send again", "Good answer", "Send"):
        expect(page.get_by_role("button", name=name, exact=True)).to_have_count(0)
    expect(page.locator(".composer, .rail")).to_have_count(0)
    expect(page.locator(".hold-toggle").first).to_be_hidden()
    page.get_by_role("button", name="Share or save").click()
    expect(page.get_by_role("button", name="Make a link")).to_have_count(0)
    expect(page.get_by_role("button", name="Save as a file")).to_be_enabled()
    keep_screenshot(page, "share-reader-1440")
    page.keyboard.press("Escape")
    page.set_viewport_size({"width": 360, "height": 740})
    page.get_by_role("tab", name="Inside").click()
    expect(page.locator("html")).to_have_js_property("scrollWidth", 360)
    keep_screenshot(page, "share-reader-360")


def test_a_stranger_without_the_link_gets_404(real_site: Site, kept: Kept, browser: Browser) -> None:
    page = browser.new_page()
    for path in (kept[0][:-3], "/s/nothing"):
        reply = page.goto(real_site.url + path)
        assert reply is not None
        assert reply.status == 404
    page.context.close()


def test_a_link_that_is_taken_back_leads_nowhere(site: Site, open_page: Open) -> None:
    page = open_page(site)
    ask(page, "hello")
    expect(page.locator(".answer-state")).to_contain_text("Complete")
    page.get_by_role("button", name="Share or save").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("There is no link yet.")
    dialog.get_by_role("button", name="Make a link").click()
    address = dialog.get_by_label("Link to this trace")
    expect(address).to_be_visible()
    link = address.input_value()
    assert page.request.get(link).status == 200
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Share or save").click()
    expect(address).to_have_value(link)
    dialog.get_by_role("button", name="Take the link back").click()
    expect(dialog).to_contain_text("There is no link yet.")
    assert page.request.get(link).status == 404


def open_offline(page: Page, file: Path) -> None:
    expect(page.locator("#app[data-complete]")).to_be_attached()
    page.context.set_offline(True)
    page.get_by_label("Trace file").set_input_files(file)


def test_a_file_opens_offline_where_it_was_saved(kept: Kept, real_site: Site, open_page: Open) -> None:
    _, file, chips = kept
    asked: list[str] = []
    page = open_page(real_site, "/open", prepare=lambda page: page.on("websocket", lambda one: asked.append(one.url)))
    page.on("request", lambda request: asked.append(request.url) if "/api/" in request.url else None)
    open_offline(page, file)
    expect(page.locator(".answer-tokens .token")).to_have_count(len(chips))
    assert page.locator(".answer-tokens .token").all_inner_texts() == chips
    assert "layer=3" in page.url
    expect(page.locator("#stage-softmax .heatmap-plot[data-drawn]")).to_be_visible()
    keep_screenshot(page, "trace-file-1440")
    page.locator(".station[data-slug=sampling]").click()
    expect(page.locator("#stage-sampling")).to_contain_text("draw")
    page.locator(".station[data-slug=feed_forward]").click()
    expect(page.locator("#stage-feed_forward .view-failed").first).to_contain_text("not in the file")
    pages = page.get_by_role("navigation", name="Stages and pages").get_by_role("link")
    for index in range(1, pages.count()):
        pages.nth(index).click()
        expect(page.locator(".page-body > *").first).to_be_attached()
        expect(page.locator(".page-body")).not_to_contain_text("could not be loaded")
    expect(page.locator("#page-numbers [data-figure]").first).to_be_attached()
    assert asked == []
    page.context.set_offline(False)


def test_a_file_that_is_no_trace_says_what_is_wrong(
    kept: Kept, real_site: Site, open_page: Open, tmp_path: Path
) -> None:
    changes: dict[str, dict[str, object]] = {
        "version must be 1": {"version": 2},
        "format must be": {"format": "other"},
        "events[0] must be": {"events": [{"type": "trace.step"}]},
        "events[0] cannot": {"events": [TOKENS_WITHOUT_DATA]},
        "events has no end": {"events": []},
        "model.n_layers must be": {"model": {"n_layers": 1e12}},
        "views[0] must be": {"views": [{"slug": "x"}]},
    }
    page = open_page(real_site, "/open")
    wrong = tmp_path / "wrong.json"
    wrong.write_text("no JSON")
    page.get_by_label("Trace file").set_input_files(wrong)
    expect(page.get_by_role("alert")).to_contain_text("not JSON")
    for words, change in changes.items():
        wrong.write_text(json.dumps({**json.loads(kept[1].read_text()), **change}))
        page.get_by_label("Trace file").set_input_files(wrong)
        expect(page.get_by_role("alert")).to_contain_text(words)
    page.get_by_label("Trace file").set_input_files(kept[1])
    expect(page.locator(".message-user .message-text")).to_have_text("The capital of France is")


def test_markup_in_a_file_stays_text(kept: Kept, real_site: Site, open_page: Open, tmp_path: Path) -> None:
    hostile = "<img src=x onerror=alert(1)>"
    file = json.loads(kept[1].read_text())
    file["response"] |= {"prompt": hostile, "text": hostile, "html": hostile}
    for event in file["events"]:
        event |= {"text": hostile} if event["type"].startswith("response.") and "text" in event else {}
    page = open_page(real_site, "/open")
    changed = tmp_path / "hostile.json"
    changed.write_text(json.dumps(file))
    page.get_by_label("Trace file").set_input_files(changed)
    expect(page.locator(".message-user .message-text")).to_have_text(hostile)
    expect(page.locator(".answer-text.growing")).to_have_text(hostile)
    expect(page.locator("img")).to_have_count(0)
