"""Prompts from one word to one too many, in a real browser with the real model: what grows with them stays usable."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import ask
from tests.browser.visit import Journey, map_of, shown, visit
from tests.service.site import Site

pytestmark = pytest.mark.browser

LAST_LAYER, HEAD = 29, 4
TILE = 500  # positions a side of one part of the map
TEMPLATE = 40  # the most tokens that the chat template adds
CONTEXT = 8192
WAIT_MS = 100_000  # the longest takes long to read where others work too


@pytest.fixture(scope="module")
def journey(browser: Browser, real_site: Site) -> Iterator[Journey]:
    with visit(browser, real_site) as made:
        settings = json.dumps({"temperature": 0, "max_tokens": 2})
        made.page.evaluate("settings => localStorage.setItem('sampling', settings)", settings)
        made.page.reload()
        yield made


@pytest.mark.parametrize("length", [1, 10, 64, 256, 512, 2048])
def test_the_map_of_the_last_layer_can_be_read(journey: Journey, length: int) -> None:
    page = journey.page
    page.goto(journey.base)
    ask(page, "word " * length)
    expect(page.locator(".answer-state").last).to_contain_text(re.compile("Complete|Cut at"), timeout=WAIT_MS)
    journey.read_back()
    num_prompt_tokens = journey.response["usage"]["input_tokens"]
    assert length <= num_prompt_tokens <= length + TEMPLATE
    address = f"#stage=softmax&layer={LAST_LAYER}&head={HEAD}&step=0"
    page.evaluate("address => { location.hash = address; }", address)
    drawn = map_of(page.locator("#stage-softmax"))
    first = (num_prompt_tokens - 1) // TILE * TILE  # the part that the last position of the prompt lies in
    info, tensors = journey.view(
        "attention", layer=LAST_LAYER, head=HEAD, query_from=first, query_to=first + len(drawn), key_from=first,
        key_to=first + len(drawn[0]),
    )  # fmt: skip
    served = tensors["weights"]
    assert 0 < len(drawn) <= TILE
    ticks = page.locator("#stage-softmax .heatmap-plot").evaluate("plot => plot.layout.yaxis.ticktext")
    assert [tick for tick in ticks if not re.fullmatch(r"\d+ (?!…).+", tick)] == []
    np.testing.assert_array_equal(np.array([[v or 0 for v in row] for row in drawn]), served)
    assert shown(page.locator("#stage-softmax"), "row_sum") == pytest.approx(1, abs=1e-3)
    beside_the_sink = served[1:, 1:] if first == 0 else served
    assert info["colour_maximum"] > 0
    assert info["colour_maximum"] == pytest.approx(float(beside_the_sink.max()))
    for slug in ("tokens", "scores", "weighted_sum", "kv_cache"):
        journey.go(slug)
        expect(page.locator(f"#stage-{slug} .view-failed")).to_have_count(0)
    check_later_tokens(journey, num_prompt_tokens)


def check_later_tokens(journey: Journey, num_prompt_tokens: int) -> None:
    """What the report of a long prompt leaves out is there by position, down to the last token."""
    rest = journey.go("tokens").locator("[data-part=rest]")
    (report,) = [event for event in journey.of_type("trace.stage") if event["stage"] == "tokens"]
    num_reported = len(report["data"]["pieces"])
    if num_reported == num_prompt_tokens:
        expect(rest).to_be_hidden()
        return
    expect(rest.locator(".tokens .token").first).to_have_attribute("data-position", str(num_reported))
    later = rest.get_by_role("button", name="Later")
    while later.is_enabled():
        last = int(str(rest.locator(".tokens .token").last.get_attribute("data-position")))
        later.click()
        expect(rest.locator(".tokens .token").first).to_have_attribute("data-position", str(last + 1))
    expect(rest.locator(".tokens .token").last).to_have_attribute("data-position", str(num_prompt_tokens - 1))
    info, _ = journey.view("tokens", position_from=num_prompt_tokens - 1, position_to=num_prompt_tokens)
    assert [piece["position"] for piece in info["pieces"]] == [num_prompt_tokens - 1]


def test_one_over_the_limit_is_refused_with_both_numbers(journey: Journey) -> None:
    page = journey.page
    page.goto(journey.base)
    ask(page, "word " * CONTEXT)
    expect(page.locator(".answer-state").last).to_contain_text("Refused", timeout=WAIT_MS)
    expect(page.locator(".answer-state").last).to_contain_text(re.compile(r"8,?192"))
    journey.read_back()
    assert journey.response["usage"]["output_tokens"] == 0
    counts = [int(count) for count in re.findall(r"\d+", journey.response["error"]["message"].replace(",", ""))]
    assert CONTEXT in counts
    assert CONTEXT < max(counts) <= CONTEXT + TEMPLATE
