"""Technical terms explain themselves where they first stand in a sentence."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Open, ask, await_end
from tests.service.site import Site
from webtrace.lessons.terms import TERMS

pytestmark = pytest.mark.browser

SHOWN_BELOW = "node => getComputedStyle(node, '::after').content"


def test_a_term_explains_itself_on_hover_and_focus(site: Site, open_page: Open) -> None:
    page = open_page(site, "/#stage=tokens")
    ask(page, "what is a token")
    await_end(page)
    sentence = page.locator("#stage-tokens .stage-sentence")
    term = sentence.locator(".term", has_text="token").first
    assert term.evaluate(SHOWN_BELOW) == "none"
    term.hover()
    assert TERMS["token"] in term.evaluate(SHOWN_BELOW)
    page.mouse.move(0, 0)
    term.focus()
    assert TERMS["token"] in term.evaluate(SHOWN_BELOW)
    expect(term).to_have_attribute("aria-description", TERMS["token"])
    marked = [one.lower().rstrip("s") for one in sentence.locator(".term").all_inner_texts()]
    assert len(set(marked)) == len(marked)


def test_what_somebody_typed_is_not_explained(site: Site, open_page: Open) -> None:
    page = open_page(site, "/#stage=mask")
    ask(page, "softmax")
    await_end(page)
    page.get_by_role("slider", name="position").fill("24")
    sentence = page.locator("#stage-mask .stage-sentence")
    expect(sentence).to_contain_text("position 24")
    quoted = sentence.evaluate(
        "node => [...node.querySelectorAll('.term')].map((one) => one.previousSibling?.data ?? '')"
    )
    assert not any(before.endswith(("“", "“·")) for before in quoted)
