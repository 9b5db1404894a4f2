"""The stages of one real answer in a real browser: their arithmetic, charts by mouse and keyboard, failures.

That each shows the right values is tested in test_journey.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.browser.conftest import ask
from tests.browser.visit import Journey, map_of, shown, visit
from tests.service.site import Site
from webtrace.stages import STAGES

pytestmark = pytest.mark.browser

PROMPT = "Tell me a political joke"
SAMPLING = {"temperature": 0.8, "seed": 7, "max_tokens": 24}  # the same short answer every time
REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "reference.json").read_text())["cases"][0]
LAYER, HEAD, POSITION, KEY = 14, 4, 34, 28  # the last position of the prompt and the token " joke"
HEAD_WIDTH = 64
CLOSE = 2e-3  # between numbers that the packed kernel made in different batches
NUM_LINES = 20  # at most so many keys are joined with their query
HERE = {"layer": LAYER, "head": HEAD, "position": POSITION}


def open_at(journey: Journey, slug: str, **selection: int) -> Locator:
    """The stage at an address that names all choices."""
    chosen = "".join(f"&{name}={value}" for name, value in {**HERE, "step": 0, "key": KEY, **selection}.items())
    journey.page.evaluate("address => { location.hash = address; }", f"#stage={slug}{chosen}")
    stage = journey.page.locator(f"#stage-{slug}")
    expect(stage).to_be_visible()
    return stage


@pytest.fixture(scope="module")
def journey(browser: Browser, real_site: Site) -> Iterator[Journey]:
    with visit(browser, real_site) as made:
        made.page.evaluate("settings => localStorage.setItem('sampling', settings)", json.dumps(SAMPLING))
        made.page.reload()
        ask(made.page, PROMPT)
        end = re.compile("Complete|Cut at the limit")
        expect(made.page.locator(".answer-state").last).to_contain_text(end, timeout=60_000)
        made.read_back()
        yield made


def weights(journey: Journey) -> np.ndarray:
    """Softmax of the raw scores, in numpy."""
    raw = journey.view("scores", **HERE)[1]["raw"].astype(np.float64) / math.sqrt(HEAD_WIDTH)
    exponentials = np.exp(raw - raw.max())
    return np.asarray(exponentials / exponentials.sum())


IDS = REFERENCE["token_ids"]
NOTHING_TO_TICK = {"retrieval", "gateway", "input_safety", "routing", "output_safety", "storage"}
CHECKED = [stage.slug for stage in STAGES if stage.slug not in NOTHING_TO_TICK]


@pytest.mark.parametrize("slug", CHECKED)
def test_the_browser_recomputes_what_the_server_says(journey: Journey, slug: str) -> None:
    stage = open_at(journey, slug)
    stage.locator(".stage-fold > summary").click()
    expect(stage.locator(".stage-arithmetic [data-agrees]").first).to_be_visible()
    for box in stage.locator(".stage-arithmetic details > summary").all():
        box.click()
    assert stage.locator('[data-agrees="false"]').all_inner_texts() == []


def test_retrieval_says_that_it_was_off_and_safety_gives_one_distribution(journey: Journey) -> None:
    expect(open_at(journey, "retrieval")).to_contain_text("No documents were searched")
    stage = open_at(journey, "input_safety")
    expect(stage.locator("[data-name=decision]")).to_have_attribute("data-value", "allow")
    scores = stage.locator('[data-name^="score-"]').evaluate_all("all => all.map((one) => Number(one.dataset.value))")
    assert sum(scores) == pytest.approx(1, abs=1e-4)


def test_every_token_stands_under_its_own_id(journey: Journey) -> None:
    stage = open_at(journey, "token_ids")
    expect(stage.locator(".tokens .token-note")).to_have_text([str(token) for token in IDS])


def test_the_attention_map_is_the_view_cell_by_cell(journey: Journey) -> None:
    drawn_map = map_of(open_at(journey, "softmax"))
    _, tensors = journey.view("attention", layer=LAYER, head=HEAD)
    served = tensors["weights"]
    assert len(drawn_map) == len(served) == len(IDS) + len(journey.steps) - 1
    for row, values in enumerate(drawn_map):
        assert values[: row + 1] == pytest.approx(served[row, : row + 1].tolist())
        assert set(values[row + 1 :]) <= {None}
    assert drawn_map[POSITION][: POSITION + 1] == pytest.approx(weights(journey).tolist(), abs=CLOSE)


def test_the_colour_bar_ends_at_the_largest_weight_beside_the_sink(journey: Journey) -> None:
    stage = open_at(journey, "softmax")
    map_of(stage)
    _, tensors = journey.view("attention", layer=LAYER, head=HEAD)
    largest = float(tensors["weights"][1:, 1:].max())
    said = stage.locator(".heatmap .colour-legend, .heatmap-key .colour-legend, .colour-legend").first.inner_text()
    low, high = map(float, re.findall(r"\d+(?:\.\d+)?", said)[:2])
    assert low == 0
    assert high == pytest.approx(largest, rel=1e-2)


def test_keys_and_clicks_choose_cells_and_heads_without_scrolling(journey: Journey) -> None:
    page = journey.page
    stage = open_at(journey, "softmax")
    map_of(stage)
    stage.locator(".heatmap").focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowLeft")
    expect(stage.locator(".heatmap-said")).to_contain_text(f"query {POSITION - 1}")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"position={POSITION - 1}&key={KEY - 1}"))
    expect(stage.locator("tr[aria-current]")).to_contain_text(str(KEY - 1))
    entropy = journey.view("heads_grid", layer=LAYER, position=POSITION - 1)[1]["entropy"][LAYER, 7]
    drawn_again = stage.locator('[data-name="entropy-7"]')
    expect(drawn_again).to_have_attribute("data-value", str(float(entropy)))
    thumbnail = stage.locator('.thumbnail-button[data-head="7"]')
    thumbnail.hover()
    before = thumbnail.bounding_box()
    drawings = stage.locator(".heatmap-plot").get_attribute("data-drawn")
    thumbnail.click()
    expect(page).to_have_url(re.compile("head=7"))
    expect(stage.locator(".heatmap-plot")).not_to_have_attribute("data-drawn", str(drawings))
    expect(thumbnail).to_have_attribute("aria-pressed", "true")
    assert thumbnail.bounding_box() == before


def test_lines_join_a_query_with_the_keys_it_read(journey: Journey) -> None:
    page = journey.page
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    part = open_at(journey, "softmax", layer=LAYER + 3).locator("[data-part=lines]")
    keys = part.get_by_role("list", name="Keys it read").get_by_role("listitem")
    expect(keys).to_have_count(NUM_LINES)
    row = journey.view("softmax", **{**HERE, "layer": LAYER + 3})[1]["weights"].tolist()
    expect(keys.locator(f'[data-name="line-0"][data-value="{row[0]}"]')).to_be_visible()
    drawn = part.locator("li:has(path)").evaluate_all(
        "all => all.map((one) => { const [path, value] = ['path', '.quantity'].map((name) => one.querySelector(name));"
        "return [Number(value.dataset.name.split('-')[1]), Number(value.dataset.value),"
        "...['stroke-width', 'opacity'].map((name) => Number(path.getAttribute(name)))]; })"
    )
    strongest = sorted(range(len(row)), key=lambda key: -row[key])[:NUM_LINES]
    strongest = strongest if KEY in strongest else [*strongest[:-1], KEY]
    assert {key: weight for key, weight, _, _ in drawn} == {key: row[key] for key in strongest}
    beside_sink = sorted(one[1:] for one in drawn if one[0] > 0)
    for column in zip(*beside_sink, strict=True):
        assert list(column) == sorted(set(column)), "a larger weight has a wider and darker line"
    assert beside_sink[-1][2] == 1, "the range ends at the largest weight beside position 0"
    expect(part.locator(".note")).to_contain_text(f"{NUM_LINES} of {POSITION + 1} keys")
    assert len([url for url in requests if "/views/softmax" in url]) == 1


def test_a_token_of_the_lines_becomes_the_query(journey: Journey) -> None:
    page = journey.page
    part = open_at(journey, "softmax").locator("[data-part=lines]")
    queries = part.get_by_role("list", name="Queries")
    queries.locator('[data-focus="query-30"]').click()
    expect(page).to_have_url(re.compile(r"position=30\b"))
    expect(part.locator('[data-name="line-31"]')).to_have_count(0)
    expect(queries.locator('[aria-pressed="true"]')).to_be_focused()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"position=29\b"))
    expect(queries.locator('[aria-pressed="true"]')).to_have_attribute("data-focus", "query-29")
    expect(part.locator("path")).to_have_count(NUM_LINES)
    part.get_by_role("list", name="Keys it read").get_by_role("button").last.click()
    expect(page).to_have_url(re.compile(r"position=29&key=29\b"))


def test_one_selection_rules_all_stages_and_survives_a_reload(journey: Journey) -> None:
    page = journey.page
    open_at(journey, "scores")
    page.locator("[data-picker=layer]").get_by_role("button", name="Next layer").click()
    expect(page).to_have_url(re.compile(f"layer={LAYER + 1}"))
    page.reload()
    stage = page.locator("#stage-scores")
    assert shown(stage, f"score-{KEY}") == pytest.approx(
        float(journey.view("scores", layer=LAYER + 1, head=HEAD, position=POSITION)[1]["raw"][KEY]), rel=1e-6
    )


def test_a_view_that_cannot_be_had_says_so_and_can_be_asked_again(journey: Journey) -> None:
    page = journey.page
    refuse = {"status": 503, "json": {"error": {"code": "unavailable", "message": "Busy just now"}}}
    page.route("**/views/mask?*", lambda route: route.fulfill(**refuse))
    stage = open_at(journey, "mask", layer=3)
    expect(stage.locator(".view-failed")).to_contain_text("Busy just now")
    page.unroute("**/views/mask?*")
    stage.get_by_role("button", name="Try again").click()
    assert shown(stage, "allowed") == POSITION + 1
    expect(stage.locator(".view-failed")).to_have_count(0)


def opened(stage: Locator, part: str) -> Locator:
    """A folded part of a stage, open."""
    section = stage.locator(f"[data-part={part}]")
    section.locator("summary").first.click()
    return section


def test_the_cache_is_tested_by_its_inputs_and_on_request_by_a_run_without_it(journey: Journey) -> None:
    stage = open_at(journey, "kv_cache")
    asked: dict[str, Any] = {"step": len(journey.steps) - 1, "top": 5}
    for query, proof in (
        ({}, "every kept row is what its layer's input gives"),
        ({"everywhere": "true"}, "in one piece"),
    ):
        expect(stage).to_contain_text(proof, timeout=60_000)
        info, tensors = journey.view("kv_cache", **asked, **query)
        for name in ("largest_difference", "largest_row_difference"):
            assert shown(stage, name) == info[name]
        for token, logit in zip(info["top_ids"], tensors["uncached_logits"].tolist(), strict=True):
            assert shown(stage, f"uncached-{token}") == logit
        stage.locator("[data-focus=proof]").click()
    expect(stage.get_by_role("button", name="Read the whole text again")).to_be_visible()


def test_a_head_switched_off_shows_what_the_service_computes_without_it(journey: Journey) -> None:
    stage = open_at(journey, "heads")
    part = opened(stage, "ablation")
    said = part.get_by_role("status")
    expect(said).to_contain_text(f"After position {POSITION}")
    info, tensors = journey.view("ablation", position=POSITION, heads=f"{LAYER}:{HEAD}")
    for token, before, now in zip(
        info["token_ids"], tensors["before_probabilities"].tolist(), tensors["probabilities"].tolist(), strict=True
    ):
        assert (shown(part, f"ablation-before-{token}"), shown(part, f"ablation-{token}")) == (before, now)
    assert shown(part, "ablation-divergence") == info["divergence"] > 0
    expect(part).to_contain_text("Only this position goes without it")

    part.get_by_role("button", name=f"Switch off all of layer {LAYER}").click()
    both: dict[str, Any] = {"position": POSITION, "heads": f"{LAYER}:{HEAD}", "layers": str(LAYER)}
    divergence = part.locator('[data-name="ablation-divergence"]')
    expect(divergence).to_have_attribute("data-value", str(journey.view("ablation", **both)[0]["divergence"]))
    part.get_by_label("also while the positions before were read").check()
    everywhere = journey.view("ablation", **both, everywhere="true")[0]["divergence"]
    expect(divergence).to_have_attribute("data-value", str(everywhere))
    expect(part).to_contain_text("The positions before were read without it too")

    part.get_by_role("button", name=f"head {HEAD} of layer {LAYER} is off").click()
    part.get_by_role("button", name=f"all of layer {LAYER} is off").click()
    expect(said).to_contain_text("Nothing is off")
    expect(divergence).to_have_count(0)


def test_a_feed_forward_block_can_be_off_in_another_layer_too(journey: Journey) -> None:
    part = opened(open_at(journey, "feed_forward"), "ablation")
    expect(part.get_by_role("button", name=f"feed-forward of layer {LAYER} is off")).to_be_visible()
    journey.page.evaluate("layer => { location.hash = location.hash.replace(/layer=\\d+/, `layer=${layer}`); }", 3)
    part.get_by_role("button", name="Switch off feed-forward of layer 3").click()
    info, _ = journey.view("ablation", position=POSITION, feed_forwards=f"{LAYER},3")
    expect(part.locator('[data-name="ablation-divergence"]')).to_have_attribute("data-value", str(info["divergence"]))


def test_a_logit_is_taken_apart_into_parts_that_lead_to_their_stages(journey: Journey) -> None:
    stage = open_at(journey, "logits")
    part = stage.locator("[data-part=attribution]")
    step = journey.steps[0]
    info, tensors = journey.view("attribution", step=0, token=step["token"])
    assert shown(part, "attribution-logit") == info["logit"]
    assert shown(part, "attribution-rounding") == info["rounding"]
    assert shown(part, "attribution-heads") == pytest.approx(float(tensors["heads"].sum()), rel=1e-3)
    expect(part.locator("[data-check=attribution-sum]")).to_have_attribute("data-agrees", "true")
    assert abs(info["rounding"]) <= info["exactness"]["tolerance"] * info["sum_of_sizes"]

    part.get_by_label("its lead over the best other token").check()
    rival = max((row for row in step["candidates"] if row[0] != step["token"]), key=lambda row: row[2])
    lead = journey.view("attribution", step=0, token=step["token"], against=rival[0])[0]["logit"]
    expect(part.locator('[data-name="attribution-logit"]')).to_have_attribute("data-value", str(lead))
    assert lead == pytest.approx(next(row[2] for row in step["candidates"] if row[0] == step["token"]) - rival[2])

    part.locator("[data-table=attribution]").get_by_role("button", name="head").first.click()
    expect(journey.page.locator("#stage-heads")).to_be_visible()
    expect(journey.page).to_have_url(re.compile(f"position={POSITION}"))
