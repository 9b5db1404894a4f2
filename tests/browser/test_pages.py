"""The pages beside the stages: the debugging table, the misconceptions, the worked numbers."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from playwright.sync_api import Browser, Locator, Route, expect

from tests.browser.conftest import ask, await_end
from tests.browser.visit import Journey, all_shown, shown, visit
from tests.service.site import Site
from webtrace.stages import STAGES

pytestmark = pytest.mark.browser

CLAIMS = ["database", "one-vector", "cosine", "best-sentence", "factual", "understands", "trains", "at-once"]
FIGURES: dict[str, Any] = json.loads((Path(__file__).parents[1] / "reference" / "article_numbers.json").read_text())
UNLIKELY, RANK, CONFIDENT = 4, 3, 7
SCORES, KEY_NORMS, QUERY_NORM = [8.0, 6.0, 1.0], [4.0, 1.5, 1.0], 2.0  # dot product and cosine rank them differently


@pytest.fixture(scope="module")
def journey(browser: Browser, site: Site) -> Iterator[Journey]:
    """A finished answer whose log, as the page reads it again, has numbers that the fake engine does not have."""
    with visit(browser, site) as made:
        ask(made.page, "Tell me a political joke")
        await_end(made.page)
        made.read_back()
        for event in made.events:
            _change(event)
        made.page.route("**/events?*", lambda route: _play(route, made.events))
        made.page.route("**/views/scores?*", _scores)
        made.page.reload()
        expect(made.page.locator("#stage-request")).to_have_attribute("data-state", "done")
        yield made


def _change(event: dict[str, Any]) -> None:
    if event["type"] == "trace.step" and event["step"] == UNLIKELY:
        event |= {"rank": RANK, "raw_logprob": math.log(0.0625)}
    if event["type"] == "trace.step" and event["step"] == CONFIDENT:
        event["raw_logprob"] = math.log(0.875)
    if event["type"] == "trace.stage" and "multiply_adds" in event["data"]:
        event["data"]["multiply_adds"] = 1000 * len(event["stage"])


def _play(route: Route, events: list[dict[str, Any]]) -> None:
    fresh = "after=0" in route.request.url and "epoch=0" in route.request.url
    route.fulfill(json={"events": events if fresh else [], "finished": True})


def _scores(route: Route) -> None:
    view = {"opened": {"q_norm": QUERY_NORM}, "provenance": "derived", "exactness": {"tolerance": 0, "kernel": "test"}}
    tensors = {"raw": np.array(SCORES, np.float32), "key_norms": np.array(KEY_NORMS, np.float32)}
    route.fulfill(body=safetensors.numpy.save(tensors, {"view": json.dumps(view)}))


def go(journey: Journey, name: str, title: str) -> Locator:
    journey.page.get_by_role("link", name=title, exact=True).click()
    page = journey.page.locator(f"#page-{name}")
    expect(page.locator("h3, tbody").first).to_be_visible()  # its module has been loaded and has drawn
    return page


def claim(journey: Journey, name: str) -> Locator:
    return go(journey, "misconceptions", "Misconceptions").locator(f"[data-claim={name}]")


def test_the_table_has_22_rows_of_this_request(journey: Journey) -> None:
    table = go(journey, "table", "Table").locator("[data-table=debug]")
    expect(table.locator("tbody")).to_have_count(22)
    reports = {event["stage"]: event for event in journey.of_type("trace.stage")}
    for stage in STAGES:
        row = table.locator(f"[data-stage={stage.slug}]")
        if stage.debug_row is None:
            expect(row).to_have_count(0)
            continue
        expect(table.locator(f'[data-row="{stage.debug_row}"] [data-stage={stage.slug}]')).to_have_count(1)
        report = reports[stage.slug]
        expect(row.locator("td").first).to_have_text(report["input"])
        expect(row.locator("td").nth(2)).to_have_text(report["output"])
        if report["duration_ms"]:
            assert shown(row, f"time-{stage.slug}") == report["duration_ms"]
    assert shown(journey.page.locator("#page-table"), "reached") == 22


def test_a_row_leads_to_its_stage_and_back(journey: Journey) -> None:
    table = go(journey, "table", "Table")
    assert "page=table" in journey.page.url
    journey.page.reload()
    expect(table).to_be_visible()
    table.get_by_role("link", name="Softmax", exact=True).focus()
    journey.page.keyboard.press("Enter")
    expect(journey.page.locator("#stage-softmax")).to_be_visible()
    expect(table).to_have_count(0)
    journey.page.go_back()
    expect(table).to_be_visible()
    expect(journey.page.locator("#stage-softmax")).to_be_hidden()
    journey.page.locator(".station[data-slug=softmax]").click()
    expect(journey.page.locator("#stage-softmax")).to_be_visible()


def test_a_refused_request_reached_no_later_row(journey: Journey) -> None:
    """The same log, cut behind the gateway."""
    cut = [one for one in journey.events if one["type"] != "trace.stage" or one["stage"] in ("request", "gateway")]
    journey.page.route("**/events?*", lambda route: _play(route, cut))
    go(journey, "table", "Table")
    journey.page.reload()
    rows = journey.page.locator("#page-table [data-table=debug] tr[data-stage]")
    expect(journey.page.locator("[data-name=reached]")).to_have_attribute("data-value", "2")
    for row in rows.filter(has_text=re.compile("^(?!.*(The request|The gateway))")).all():
        expect(row.locator("td").last).to_have_text("not reached")
    journey.page.unroute("**/events?*")
    journey.page.route("**/events?*", lambda route: _play(route, journey.events))
    journey.page.reload()
    expect(journey.page.locator("[data-name=reached]")).to_have_attribute("data-value", "22")


def test_eight_misconceptions_have_the_runs_own_numbers(journey: Journey) -> None:
    page = go(journey, "misconceptions", "Misconceptions")
    assert page.locator("[data-claim]").evaluate_all("all => all.map((one) => one.dataset.claim)") == CLAIMS
    steps = journey.steps
    assert shown(claim(journey, "database"), "steps") == len(steps)
    assert shown(claim(journey, "database"), "candidates") == 0
    prompt = next(one["data"] for one in journey.of_type("trace.stage") if one["stage"] == "tokens")
    assert shown(claim(journey, "one-vector"), "positions") == prompt["num_tokens"]
    assert shown(claim(journey, "one-vector"), "layers") == 30
    sentence = claim(journey, "best-sentence")
    assert shown(sentence, "not-likeliest") == 1
    assert shown(sentence, f"rank-{UNLIKELY}") == RANK
    joint = sum(step["raw_logprob"] for step in steps) / math.log(10)
    assert shown(sentence, "joint-log10") == pytest.approx(joint)
    assert shown(claim(journey, "factual"), "confident-step") == CONFIDENT
    assert shown(claim(journey, "factual"), "confidence") == pytest.approx(0.875)
    beginnings = all_shown(claim(journey, "at-once"))
    for token, _, _, _, share in steps[0]["candidates"][:8]:
        assert beginnings[f"beginning-{token}"] == share


def test_operations_and_fingerprints_are_those_of_the_reports(journey: Journey) -> None:
    counted = {
        event["stage"]: event["data"]["multiply_adds"]
        for event in journey.of_type("trace.stage")
        if "multiply_adds" in event["data"]
    }
    assert len(counted) == 11
    values = all_shown(claim(journey, "understands"))
    assert values["multiply-adds"] == sum(counted.values())
    assert all(values[f"multiply-adds-{slug}"] == number for slug, number in counted.items())
    trains = claim(journey, "trains")
    expect(trains.locator("[data-name=fingerprint-then]")).to_have_text(journey.response["fingerprint"])
    expect(trains.locator("[data-name=fingerprint-now]")).to_have_text(journey.response["fingerprint"])
    expect(trains.locator("[data-name=fingerprint-same]")).to_have_attribute("data-value", "true")


def test_dot_product_and_cosine_rank_the_same_keys_side_by_side(journey: Journey) -> None:
    cosine = claim(journey, "cosine")
    assert shown(cosine, "moved") == 2
    expected = [score / (norm * QUERY_NORM) for score, norm in zip(SCORES, KEY_NORMS, strict=True)]
    for key, (score, angle) in enumerate(zip(SCORES, expected, strict=True)):
        assert shown(cosine, f"scaled-{key}") == score / 8
        assert shown(cosine, f"cosine-{key}") == pytest.approx(angle)
        assert shown(cosine, f"cosine-rank-{key}") == sorted(expected, reverse=True).index(angle)


def test_another_seed_asks_again(journey: Journey) -> None:
    button = claim(journey, "at-once").get_by_role("button", name="Answer again with another seed")
    before = shown(claim(journey, "at-once"), "seed")
    sent = len(journey.frames)
    button.click()
    await_end(journey.page)
    frame = next(frame for text in journey.frames[sent:] if (frame := json.loads(text))["type"] == "response.create")
    prompt = journey.get(f"responses/{journey.response['id']}")["message_id"]
    assert (frame["input"], frame["parent_id"]) == ([], prompt)
    assert frame["sampling"]["seed"] != before
    expect(journey.page.get_by_role("group", name="Versions").last).to_contain_text("2 of 2")


def test_worked_numbers_are_those_of_the_reference(journey: Journey) -> None:
    page = go(journey, "numbers", "Numbers")
    expect(page.locator("[data-agrees]").first).to_be_visible()
    expect(page.locator("[data-agrees=false]")).to_have_count(0)
    values = all_shown(page)

    def assert_figures(name: str, expected: list[float], tolerance: float = 0.0) -> None:
        assert [values[f"{name}-{index}"] for index in range(len(expected))] == pytest.approx(expected, abs=tolerance)

    assert_figures("lookup", FIGURES["embedding_lookup"]["expected"])
    assert_figures("dot", [one["expected"] for one in FIGURES["dot_products"]])
    assert_figures("allowed", [len(keys) for keys in FIGURES["causal_mask"]["allowed_keys_per_query"]])
    mixing = FIGURES["weighted_sum"]
    for name, figure in (
        ("scaled", FIGURES["scaling"]),
        ("weight", FIGURES["attention_softmax"]),
        ("mix", mixing["with_softmax_weights"]),
        ("simple-mix", mixing["with_illustrated_weights"]),
        ("probability", FIGURES["logits_softmax"]),
    ):
        assert_figures(name, figure["expected"], figure["tolerance"])
    assert values["cosine-1"] == pytest.approx(FIGURES["cosine"]["expected"], abs=FIGURES["cosine"]["tolerance"])
    for value in [*FIGURES["attention_softmax"]["illustrated"], 0.54]:
        expect(page.get_by_role("cell", name=str(value), exact=True).first).to_be_visible()
