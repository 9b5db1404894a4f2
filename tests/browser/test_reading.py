"""How the trace is read: as one text, densely, by subject."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import ask, await_end
from tests.browser.visit import Journey, shown, visit
from tests.service.site import Site
from webtrace.stages import STAGES

pytestmark = pytest.mark.browser

PROMPT = "Tell me a political joke"
WEIGHTS_OF_MATRICES = 30 * (2 * 576 * 576 + 2 * 576 * 192 + 3 * 576 * 1536) + 49152 * 576


@pytest.fixture(scope="module")
def journey(browser: Browser, site: Site) -> Iterator[Journey]:
    with visit(browser, site) as made:
        ask(made.page, PROMPT)
        await_end(made.page)
        made.read_back()
        yield made


def test_the_journey_is_one_text_with_this_requests_values(journey: Journey) -> None:
    journey.page.get_by_role("link", name="Read", exact=True).click()
    page = journey.page.locator("#page-reading")
    tokens = next(one["data"] for one in journey.of_type("trace.stage") if one["stage"] == "tokens")
    assert shown(page, "user_tokens") == 5
    assert shown(page, "prompt_tokens") == tokens["num_tokens"]
    assert shown(page, "step_multiply_adds") == WEIGHTS_OF_MATRICES
    expect(page).to_contain_text("Your 5 words became 5 tokens")
    order = page.locator("[data-stage]").evaluate_all("all => all.map((one) => one.dataset.stage)")
    assert order == [stage.slug for stage in STAGES]
    told = page.locator("[data-stage=token_ids]")
    sentence = told.inner_text().removeprefix("Token ids.").strip()
    told.get_by_role("link").click()
    expect(journey.page.locator("#stage-token_ids .stage-sentence")).to_have_text(sentence)


def test_dense_leaves_tables_and_charts_alone_and_is_remembered(journey: Journey) -> None:
    stage = journey.go("tokens")
    journey.page.get_by_label("data only").check()
    for hidden in (".stage-sentence", ".note", ".stage-facts"):
        expect(stage.locator(hidden).first).to_be_hidden()
    expect(stage.get_by_role("table").first).to_be_visible()
    journey.page.reload()
    expect(journey.page.locator(".stage-facts")).to_be_hidden()
    journey.page.get_by_label("data only").uncheck()
    expect(journey.page.locator(".stage-sentence")).to_be_visible()


def test_a_subject_marks_its_own_stations_alone(journey: Journey) -> None:
    journey.page.get_by_label("Stages of which subject").select_option("probability")
    marked = journey.page.locator(".station:not([data-other])")
    slugs = marked.evaluate_all("all => all.map((one) => one.dataset.slug)")
    assert slugs == [stage.slug for stage in STAGES if stage.subject == "probability"]
    expect(journey.page.locator("#stage-softmax")).to_be_visible()
    journey.page.get_by_label("Stages of which subject").select_option("")
    expect(journey.page.locator(".station[data-other]")).to_have_count(0)
