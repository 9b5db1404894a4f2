"""Every stage of one real answer in a real browser: a value each, computed again by another way, and the arithmetic."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.browser.conftest import ask
from tests.browser.visit import Journey, all_shown, map_of, shown, visit
from tests.service.site import Site

pytestmark = pytest.mark.browser

PROMPT = "Tell me a political joke"
SAMPLING = {"temperature": 0.8, "seed": 7, "max_tokens": 24}  # the same short answer every time
REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "reference.json").read_text())["cases"][0]
LAYER, HEAD, POSITION, KEY = 14, 4, 34, 28  # the last position of the prompt and the token " joke"
HEAD_WIDTH = 64
CLOSE = 2e-3  # between numbers that the packed kernel made in different batches
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


def length(vector: np.ndarray) -> float:
    return float(np.linalg.norm(vector.astype(np.float64)))


def dot_product(journey: Journey) -> float:
    """From the turned query of one position and the turned key of another: not from the view of scores."""
    _, at_query = journey.view("positions", **HERE)
    _, at_key = journey.view("positions", **HERE | {"position": KEY})
    return float(at_query["q_after"].astype(np.float64) @ at_key["k_after"].astype(np.float64))


def weights(journey: Journey) -> np.ndarray:
    """Softmax of the raw scores, in numpy."""
    raw = journey.view("scores", **HERE)[1]["raw"].astype(np.float64) / math.sqrt(HEAD_WIDTH)
    exponentials = np.exp(raw - raw.max())
    return np.asarray(exponentials / exponentials.sum())


def mixed(journey: Journey) -> np.ndarray:
    """The values of all positions, one view each, mixed by those weights."""
    values = [journey.view("qkv", **HERE | {"position": n})[1]["v"] for n in range(POSITION + 1)]
    return np.asarray(weights(journey) @ np.array(values, dtype=np.float64))


def mixture(output: np.ndarray) -> dict[str, float]:
    return {"output-0": float(output[0]), "norm": length(output)}


def drawn(journey: Journey) -> float:
    """The uniform number of seed and step 0."""
    seed = next(event for event in journey.of_type("trace.stage") if event["stage"] == "sampling")["data"]["seed"]
    return float(np.random.Generator(np.random.Philox(key=seed, counter=0)).random())


def entropy(shares: np.ndarray) -> float:
    return float(-(shares * np.log(shares)).sum())


IDS = REFERENCE["token_ids"]
EXPECTED: dict[str, Callable[[Journey], dict[str, float]]] = {
    "request": lambda j: {"num_bytes": len(next(f for f in j.frames if PROMPT in f).encode())},
    "gateway": lambda j: {"remaining": j.get("me")["limit"]["remaining"], "checks_passed": 8},
    "prompt": lambda j: {"num_tokens": len(IDS), "tokens-user": len(PROMPT.split())},
    "routing": lambda j: {"queue_ms": j.response["timings"]["queue_ms"]},
    "tokens": lambda j: {"num_tokens": len(IDS), "num_characters": len(REFERENCE["prompt"])},
    "token_ids": lambda j: {"num_distinct": len(set(IDS)), "largest": max(IDS)},
    "embeddings": lambda j: {"norm": REFERENCE["hidden_state_norms_last_position"][0]},
    "positions": lambda j: {"angle": POSITION * 100_000 ** (-2 / HEAD_WIDTH)},
    "qkv": lambda j: {"norm-q": length(j.view("positions", **HERE)[1]["q_after"])},
    "scores": lambda j: {f"score-{KEY}": dot_product(j), "sum": dot_product(j)},
    "scale": lambda j: {f"scaled-{KEY}": dot_product(j) / math.sqrt(HEAD_WIDTH)},
    "mask": lambda j: {"allowed": POSITION + 1, f"masked-{POSITION + 1}": -math.inf},
    "softmax": lambda j: {f"weight-{KEY}": weights(j)[KEY], "entropy": entropy(weights(j))},
    "weighted_sum": lambda j: mixture(mixed(j)),
    "heads": lambda j: {f"norm-{HEAD}": length(j.view("weighted_sum", **HERE)[1]["output"])},
    "residual_norm": lambda j: {
        "new_norm": length(j.view("residual_norm", layer=LAYER + 1, position=POSITION)[1]["old"])
    },
    "feed_forward": lambda j: {
        "output_norm": length(j.view("residual_norm", layer=LAYER, position=POSITION)[1]["feed_forward_update"])
    },
    "logits": lambda j: {"maximum": max(row[2] for row in j.steps[0]["candidates"])},
    "probabilities": lambda j: {"entropy": j.view("probabilities", step=0)[0]["entropy"]},
    "sampling": lambda j: {"draw": drawn(j), "probability": math.exp(j.steps[0]["logprob"])},
    "append": lambda j: {"num_steps": j.response["usage"]["output_tokens"]},
    "kv_cache": lambda j: {
        "rows_computed": len(IDS) + len(j.steps) - 1,
        "kv_bytes_per_token": 2 * 30 * 3 * HEAD_WIDTH * 4,
    },
    "detokenize": lambda j: {"num_bytes": len(j.text.encode()), "num_tokens": len(j.steps)},
    "output_safety": lambda j: {"num_characters_released": len(j.text), "num_characters_withheld": 0},
    "stream": lambda j: {"num_chunks": len(j.of_type("response.output_text.delta"))},
    "storage": lambda j: {"bytes-0": len(PROMPT.encode()), "bytes-1": len(j.text.encode())},
}


@pytest.mark.parametrize("slug", EXPECTED)
def test_a_value_of_every_stage_equals_the_same_computed_another_way(journey: Journey, slug: str) -> None:
    expected = EXPECTED[slug](journey)
    stage = open_at(journey, slug)
    for name, value in expected.items():
        assert shown(stage, name) == pytest.approx(value, rel=CLOSE, abs=1e-3), name


CHECKED = [slug for slug in EXPECTED if slug not in ("gateway", "routing", "output_safety", "storage")]


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


@pytest.mark.parametrize("step", [0, 1])
def test_the_probability_chart_shows_the_ledger(journey: Journey, step: int) -> None:
    stage = open_at(journey, "probabilities", step=step)
    candidates = journey.steps[step]["candidates"]
    expect(stage.locator(f'[data-name="raw-{candidates[0][0]}"]')).to_be_visible()
    chart = all_shown(stage)
    for token, _, _, raw, final in candidates:
        assert (chart[f"raw-{token}"], chart[f"probability-{token}"]) == pytest.approx((raw, final))
    assert chart["raw-others"] == pytest.approx(1 - sum(row[3] for row in candidates))
    stage = open_at(journey, "sampling", step=step)
    expect(stage.locator("[data-name=survivors-top_k]")).to_be_visible()
    funnel = all_shown(stage)
    for result in journey.steps[step]["ledger"]["filters"]:
        assert funnel[f"survivors-{result['name']}"] == result["num_survivors"]
        assert funnel[f"removed-{result['name']}"] == pytest.approx(result["removed_mass"])


def test_the_attention_map_is_the_view_cell_by_cell(journey: Journey) -> None:
    drawn_map = map_of(open_at(journey, "softmax"))
    _, tensors = journey.view("attention", layer=LAYER, head=HEAD)
    served = tensors["weights"]
    assert len(drawn_map) == len(served) == len(IDS) + len(journey.steps) - 1
    for row, values in enumerate(drawn_map):
        assert values[: row + 1] == pytest.approx(served[row, : row + 1].tolist())
        assert set(values[row + 1 :]) <= {None}
    assert drawn_map[POSITION][: POSITION + 1] == pytest.approx(weights(journey).tolist(), abs=CLOSE)


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
    thumbnail = stage.locator('.thumbnail-button[data-head="7"]')
    thumbnail.scroll_into_view_if_needed()
    before = thumbnail.bounding_box()
    drawings = stage.locator(".heatmap-plot").get_attribute("data-drawn")
    thumbnail.click()
    expect(page).to_have_url(re.compile("head=7"))
    expect(stage.locator(".heatmap-plot")).not_to_have_attribute("data-drawn", str(drawings))
    expect(thumbnail).to_have_attribute("aria-pressed", "true")
    assert thumbnail.bounding_box() == before


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
