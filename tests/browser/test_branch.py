"""Going on from another token, in a real browser: versions beside each other, in two tabs."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import SPOKEN, Open, ask, await_end, keep_screenshot
from tests.browser.test_chat import conversation_of
from tests.browser.visit import shown
from tests.service.site import Site

pytestmark = pytest.mark.browser
STEP = 5  # "words" in "Here is a list of words"


def tokens(page: Page) -> list[str]:
    return page.locator(".answer-tokens .token").all_inner_texts()


def test_a_token_is_exchanged_and_both_answers_stay(site: Site, open_page: Open) -> None:
    page = open_page(site)
    ask(page, "hello")
    await_end(page)
    before = tokens(page)
    others = page.get_by_role("group", name="Branch with another token")
    expect(others).to_be_hidden()
    page.locator(f".answer-tokens [data-step='{STEP}']").click()
    expect(others).to_contain_text("Go on with another token")
    detail = page.locator(".chip-detail")
    page.locator(".answer-tokens [data-step='1']").hover()
    expect(detail).to_contain_text("step 1:")
    others.hover()
    expect(detail).to_contain_text(f"step {STEP}:")  # the one chosen, not the last one pointed at
    keep_screenshot(page, "branch-offer")
    other = others.get_by_role("button").first
    text = other.locator(".token-text").inner_text()
    assert text != before[STEP]
    other.click()
    expect(page.locator(".message-answer .versions")).to_contain_text("2 of 2")
    await_end(page)
    after = tokens(page)
    assert (after[:STEP], after[STEP], after[STEP + 1 :]) == (before[:STEP], text, before[STEP + 1 :])
    expect(page.locator(".answer-tokens .token-given")).to_have_count(STEP + 1)
    expect(page.locator(".answer-text.prose")).not_to_contain_text("a list of words")
    page.locator(f".answer-tokens [data-step='{STEP}']").click()
    page.locator(".station[data-slug=sampling]").click()
    expect(page.locator("#stage-sampling .stage-sentence")).to_contain_text("was given, not chosen")
    keep_screenshot(page, "branch-made")

    page.get_by_role("link", name="Compare").click()
    compare = page.locator("#page-compare")
    expect(compare).to_contain_text(f"They part at step {STEP}: A has “{text}” (50 %, given), B has “·words” (50 %)")
    assert shown(compare, "common") == STEP
    assert shown(compare, "mean-a") == pytest.approx(0.5)
    expect(compare.locator("[data-table=compare] tbody tr").nth(STEP)).to_contain_text("they part here")
    expect(compare.locator("[data-table=compare] tbody tr").nth(STEP - 1)).to_contain_text("same")
    expect(compare.locator("[data-table=candidates] tbody tr").filter(has_text="✓")).to_have_count(2)
    compare.locator("[data-table=compare]").get_by_role("button", name="8", exact=True).click()
    expect(compare.get_by_role("heading", name="Step 8:")).to_be_visible()
    keep_screenshot(page, "compare-1440")

    page.get_by_role("button", name="Older version").click()
    expect(page.locator(".answer-text.prose")).to_contain_text("a list of words")
    expect(page.locator(".answer-tokens .token-given")).to_have_count(0)
    messages = conversation_of(page)["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "assistant"]
    assert {message["parent_id"] for message in messages[1:]} == {messages[0]["id"]}
    assert messages[1]["content"] == SPOKEN

    ask(page, "and then?")  # under the version that is shown
    expect(page.locator(".message-answer")).to_have_count(2)
    await_end(page)
    follow_up = conversation_of(page)["messages"][-2]
    assert (follow_up["content"], follow_up["parent_id"]) == ("and then?", messages[1]["id"])


def test_another_tab_sees_the_new_version_and_both_can_be_reached_after_a_reload(site: Site, open_page: Open) -> None:
    page = open_page(site)
    ask(page, "hello")
    await_end(page)
    path = page.url.removeprefix(site.url).split("#")[0]
    second = open_page(site, path, context=page.context)
    await_end(second)
    page.locator(f".answer-tokens [data-step='{STEP}']").click()
    page.get_by_role("group", name="Branch with another token").get_by_role("button").first.click()
    expect(second.locator(".message-answer .versions")).to_contain_text("2 of 2")
    await_end(second)
    await_end(page)
    expect(second.locator(".answer-tokens .token-given")).to_have_count(STEP + 1)
    assert tokens(second) == tokens(page)
    second.reload()
    expect(second.locator(".message-answer .versions")).to_contain_text("2 of 2")
    second.get_by_role("button", name="Older version").click()
    expect(second.locator(".answer-text.prose")).to_contain_text("a list of words")


def test_nothing_is_offered_while_the_answer_grows(site: Site, open_page: Open) -> None:
    page = open_page(site)
    ask(page, "hello")
    page.locator(".answer-tokens [data-step='2']").click()
    assert "Streaming" in page.locator(".answer-state").inner_text()
    expect(page.get_by_role("group", name="Branch with another token")).to_be_hidden()
    await_end(page)
    expect(page.get_by_role("group", name="Branch with another token")).to_be_visible()
