"""What if: one step of a real answer with other settings, as the page shows it and as the service computes it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.browser.conftest import ask
from tests.browser.visit import Journey, shown, visit
from tests.service.site import Site

pytestmark = pytest.mark.browser

OWN = {"temperature": 1.0, "top_k": 40, "top_p": 0.95, "min_p": 0.0, "seed": 11}
LABELS = {"temperature": "Temperature", "top_k": "Top-k", "top_p": "Top-p", "min_p": "Min-p", "seed": "Seed"}


@pytest.fixture(scope="module")
def journey(browser: Browser, real_site: Site) -> Iterator[Journey]:
    with visit(browser, real_site) as made:
        made.page.evaluate(
            "settings => localStorage.setItem('sampling', settings)", json.dumps({**OWN, "max_tokens": 12})
        )
        made.page.reload()
        ask(made.page, "Tell me a political joke")
        end = re.compile("Complete|Cut at the limit")
        expect(made.page.locator(".answer-state").last).to_contain_text(end, timeout=60_000)
        made.read_back()
        yield made


@pytest.fixture
def surprise(journey: Journey) -> dict[str, Any]:
    """A step that did not choose the most probable token."""
    return next(step for step in journey.steps if step["rank"] > 0)


@pytest.fixture
def part(journey: Journey, surprise: dict[str, Any]) -> Locator:
    """The opened what-if of that step, as it begins."""
    journey.go("request")  # and wait for it: the part of the test before must be gone
    journey.page.evaluate("address => { location.hash = address; }", f"#stage=sampling&step={surprise['step']}")
    part = journey.page.locator("#stage-sampling [data-part=what-if]")
    part.locator("summary").click()
    expect(part.get_by_role("status")).to_contain_text("Still")
    return part


def field(part: Locator, name: str) -> Locator:
    return part.get_by_label(LABELS[name], exact=True)


def test_it_begins_with_the_step_itself(part: Locator, surprise: dict[str, Any]) -> None:
    for name, value in OWN.items():
        assert float(field(part, name).input_value()) == value
    assert shown(part, "what-if-draw") == surprise["ledger"]["draw"]
    for one in surprise["ledger"]["filters"]:
        assert shown(part, f"what-if-survivors-{one['name']}") == one["num_survivors"]
    for token, _, _, _, final in surprise["candidates"]:
        assert shown(part, f"what-if-probability-{token}") == pytest.approx(final, rel=1e-5, abs=1e-7)
    expect(part.get_by_role("button", name="Back to")).to_be_disabled()


def test_other_settings_show_what_the_sampler_says_of_them(
    journey: Journey, part: Locator, surprise: dict[str, Any]
) -> None:
    answer = journey.page.locator(".answer-tokens").last.inner_text()
    changed: dict[str, Any] = {"temperature": 1.7, "top_k": 7, "min_p": 0.02, "seed": 123456789}
    for name, value in changed.items():
        field(part, name).fill(str(value))
    info, tensors = journey.view("what_if", step=surprise["step"], **changed)
    draw = part.locator('[data-name="what-if-draw"]')
    expect(draw).to_have_attribute("data-value", str(info["ledger"]["draw"]))
    for one in info["ledger"]["filters"]:
        assert shown(part, f"what-if-survivors-{one['name']}") == one["num_survivors"]
        assert shown(part, f"what-if-removed-{one['name']}") == one["removed_mass"]
    for token, value in zip(info["candidate_ids"], tensors["probabilities"].tolist(), strict=True):
        assert shown(part, f"what-if-probability-{token}") == value
    assert info["ledger"]["filters"][3]["num_survivors"] == 7

    part.get_by_role("button", name="Back to").click()
    expect(draw).to_have_attribute("data-value", str(surprise["ledger"]["draw"]))
    for name, own in OWN.items():
        assert float(field(part, name).input_value()) == own
    assert journey.page.locator(".answer-tokens").last.inner_text() == answer


def test_without_chance_the_most_probable_token_takes_the_place(part: Locator, surprise: dict[str, Any]) -> None:
    best = max(surprise["candidates"], key=lambda row: row[3])
    slider = part.get_by_label("Temperature, slider")
    slider.focus()
    slider.press("Home")
    expect(part.get_by_role("status")).to_contain_text("instead of")
    expect(part.get_by_role("status")).to_contain_text("without a draw")
    assert field(part, "temperature").input_value() == "0"
    assert shown(part, f"what-if-probability-{best[0]}") == 1
    expect(part.locator(".draw-line")).to_have_count(0)
    slider.press("End")
    expect(part.locator(".draw-line")).to_be_visible()


def test_a_setting_the_service_refuses_is_named_with_its_limit(part: Locator) -> None:
    field(part, "top_k").fill("-1")
    failed = part.locator(".view-failed")
    expect(failed).to_contain_text("top_k: must be at least 0, not -1")
    expect(part.locator("[data-table=what-if-funnel]")).to_be_hidden()
    field(part, "top_k").fill("2")
    expect(part.locator("[data-table=what-if-funnel]")).to_be_visible()
    expect(failed).to_have_count(0)
    assert shown(part, "what-if-survivors-top_k") == 2


def test_changed_settings_go_along_to_another_step(journey: Journey, part: Locator) -> None:
    field(part, "top_k").fill("3")
    expect(part.locator('[data-name="what-if-survivors-top_k"]')).to_have_attribute("data-value", "3")
    journey.page.evaluate("location.hash = '#stage=sampling&step=0'")
    info, _ = journey.view("what_if", step=0, top_k=3)
    expect(part.locator('[data-name="what-if-draw"]')).to_have_attribute("data-value", str(info["ledger"]["draw"]))
    assert field(part, "top_k").input_value() == "3"
    assert shown(part, "what-if-survivors-top_k") == 3
