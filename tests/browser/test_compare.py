"""Answers of different conversations compared, in a real browser: chosen by a search, kept in the address."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Open, ask, await_end, keep_screenshot
from tests.browser.test_chat import conversation_of
from tests.browser.visit import shown
from tests.service.site import Site

pytestmark = pytest.mark.browser
STEP = 5


def newest_response(page: Page) -> str:
    return str(conversation_of(page)["messages"][-1]["response"]["id"])


def ask_elsewhere(page: Page, text: str) -> str:
    """Ask in a new conversation; the id of the response."""
    page.get_by_role("link", name="New conversation").click()
    ask(page, text)
    await_end(page)
    return newest_response(page)


def test_an_answer_of_another_conversation_is_found_compared_and_linked_to(site: Site, open_page: Open) -> None:
    page = open_page(site)
    fox = ask_elsewhere(page, "tell me of a fox")
    ask_elsewhere(page, "and of an owl")
    page.locator(f".answer-tokens [data-step='{STEP}']").click()
    page.get_by_role("group", name="Branch with another token").get_by_role("button").first.click()
    expect(page.get_by_text("2 of 2")).to_be_visible()  # or the end of the first version would do
    await_end(page)
    page.get_by_role("link", name="Compare").click()
    compare = page.locator("#page-compare")
    expect(compare).to_contain_text("Both read the same prompt")  # with the other version, at first

    compare.get_by_text("Choose B among all your answers").click()
    found = compare.locator(".answer-choices button")
    expect(found).to_have_count(3)
    search = compare.get_by_label("Search your answers")
    search.fill("nothing like it")
    expect(compare.get_by_role("status")).to_have_text(re.compile("No answer of yours has “nothing like it”"))
    search.fill("A FOX")
    expect(found).to_have_count(1)
    expect(found).to_contain_text("tell me of a fox → Here is a list of words")
    keep_screenshot(page, "compare-choose-1440")
    found.click()

    def is_compared() -> None:
        expect(compare).to_contain_text("of another conversation")
        expect(compare).to_contain_text(
            re.compile(r"different prompts \(\d+ tokens and \d+\). They part at step 5: A has")
        )
        expect(compare).to_contain_text("The token of A was not drawn there: a branch was given it.")
        assert shown(compare, "common") == STEP
        assert shown(compare, "difference") == 0
        asked = compare.locator("[data-table=asked] tbody tr")
        expect(asked.filter(has_text="prompt")).to_contain_text(re.compile(r"at position \d+ .*at position \d+ "))
        expect(asked.filter(has_text="seed")).not_to_have_class("row-muted")
        expect(compare.locator("[data-table=choice] tbody tr").first).to_contain_text("·words")

    is_compared()
    expect(compare).not_to_contain_text("different engines")
    expect(page).to_have_url(re.compile(f"page=compare.*with={fox}"))
    page.set_viewport_size({"width": 360, "height": 740})
    page.get_by_role("tab", name="Inside").click()
    expect(page.locator("html")).to_have_js_property("scrollWidth", 360)
    keep_screenshot(page, "compare-360")
    page.set_viewport_size({"width": 1440, "height": 900})

    def other_engine(route: Route) -> None:
        reply = route.fetch()
        route.fulfill(
            response=reply, body=re.sub(r'"fingerprint":"[^"]*"', '"fingerprint":"another engine"', reply.text())
        )

    page.route(f"**/responses/{fox}/events?**", other_engine)
    page.reload()
    is_compared()
    expect(compare).to_contain_text(re.compile(r"come from different engines \(A: .+, B: another engine\)"))
    page.unroute_all()

    compare.get_by_role("link", name="open it").click()
    expect(page.locator(".message-user .message-text")).to_have_text("tell me of a fox")


def test_a_link_to_an_older_version_shows_that_version(site: Site, open_page: Open) -> None:
    page = open_page(site)
    first = ask_elsewhere(page, "hello")
    page.get_by_role("button", name="Answer again").click()
    expect(page.locator(".message-answer .versions")).to_contain_text("2 of 2")
    await_end(page)
    page.goto(f"{page.url.split('#')[0]}#page=compare&response={first}")
    page.reload()
    expect(page.locator(".message-answer .versions")).to_contain_text("1 of 2")
    expect(page.locator("#page-compare")).to_contain_text("and are the same in all")


def test_strangers_and_link_holders_get_nothing_of_it(site: Site, open_page: Open) -> None:
    page = open_page(site)
    secret = ask_elsewhere(page, "my secret fox")
    shared = ask_elsewhere(page, "no secret")
    token = page.request.put(
        f"{site.url}/api/v1/responses/{shared}/share",
        headers={"X-CSRFToken": page.evaluate("document.cookie.match(/csrftoken=([^;]*)/)[1]")},
    ).json()["path"]

    stranger = open_page(site)
    ask(stranger, "what have they asked?")
    await_end(stranger)
    stranger.goto(f"{stranger.url.split('#')[0]}#page=compare&with={secret}")
    stranger.reload()
    compare = stranger.locator("#page-compare")
    expect(compare).to_contain_text("There is no such answer of yours to compare with.")
    compare.get_by_text("Choose B among all your answers").click()
    expect(compare.locator(".answer-choices button")).to_have_count(1)
    expect(compare.locator(".answer-choices")).to_contain_text("what have they asked?")

    asked: list[str] = []
    holder = open_page(
        site,
        f"{token}#page=compare&with={secret}",
        prepare=lambda new: new.on("request", lambda request: asked.append(request.url)),
    )
    compare = holder.locator("#page-compare")
    expect(compare).to_contain_text("There is only one answer here.")
    expect(compare.get_by_text("Choose B")).to_have_count(0)
    assert not [url for url in asked if secret in url or "/api/v1/responses" in url]
