"""The main journey in a real browser, and every number of it against computations that share nothing with the views."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise

import numpy as np
import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.browser import independent
from tests.browser.conftest import ask
from tests.browser.expected import EXPECTED, FOLDS, POSITION, STEP
from tests.browser.independent import Weights
from tests.browser.known import HEAD, LAYER, PROMPT, Known, model_of
from tests.browser.visit import Journey, map_of, shown, visit
from tests.service.site import Site, running_site
from webtrace.stages import STAGES

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]  # the first test of a kernel waits for its whole visit

SEED = "5"  # gives an answer of several sentences with each kernel
WAIT_S = 15
ANSWER_MS = 90_000  # float32 is slow where others work too
WATCH_GROWTH = """() => {
  window.growth = [];
  new MutationObserver(() => {
    const text = document.querySelector("[aria-busy=true] .answer-text.growing")?.textContent ?? "";
    if (text !== "" && text !== window.growth.at(-1)) window.growth.push(text);
  }).observe(document.body, { subtree: true, childList: true, characterData: true });
}"""


@pytest.fixture(scope="module")
def weights(real_site: Site) -> Weights:
    return Weights(model_of(real_site))


@pytest.fixture(scope="module", params=["default", "float32"])
def known(request: pytest.FixtureRequest, browser: Browser, real_site: Site, weights: Weights) -> Iterator[Known]:
    """A newcomer's visit to a site of this kernel, up to a head of their choice."""
    with ExitStack() as stack:
        site = real_site
        if request.param == "float32":
            site = stack.enter_context(running_site(WEBTRACE_ENGINE="model", WEBTRACE_KERNEL="float32"))
        journey = stack.enter_context(visit(browser, site))
        page = journey.page
        page.get_by_title("Settings of the next answer").click()
        page.get_by_label("Seed").fill(SEED)
        page.keyboard.press("Escape")
        page.evaluate(WATCH_GROWTH)
        ask(page, PROMPT)
        expect(page.locator(".answer-state").last).to_contain_text("Complete", timeout=ANSWER_MS)
        choose_head(journey)
        journey.read_back()
        yield Known.of(journey, site, weights)


def choose_head(journey: Journey) -> None:
    """By the pickers, and away from where they stood: layer by a button, head by keys."""
    stage = journey.go("softmax")
    layer = stage.locator("[data-picker=layer]")
    layer.get_by_role("slider").fill(str(LAYER - 1))
    layer.get_by_role("button", name="Next layer").click()
    stage.locator("[data-picker=head]").get_by_role("slider").focus()
    journey.page.keyboard.press("Home")
    for _ in range(HEAD):
        journey.page.keyboard.press("ArrowRight")
    expect(layer.locator(".picker-value")).to_contain_text(f"{LAYER} of")
    expect(stage.locator("[data-picker=head] .picker-value")).to_contain_text(f"{HEAD} of")


def open_stage(known: Known, slug: str, step: int) -> Locator:
    """The stage as it first draws itself for this step, chosen by its token in the answer."""
    known.journey.go("request")
    known.journey.page.locator(f".answer-tokens .token[data-step='{step}']").click()
    return known.journey.go(slug)


def test_the_text_streams(known: Known) -> None:
    growth = known.journey.page.evaluate("() => window.growth")
    assert len(growth) > 2
    assert all(after.startswith(before) for before, after in pairwise(growth))
    assert known.stored.text.startswith(growth[-1])


def test_every_stage_is_filled(known: Known) -> None:
    page = known.journey.page
    expect(page.locator(".station")).to_have_count(len(STAGES))
    expect(page.locator(".station[data-state=done]")).to_have_count(len(STAGES) - 1)
    expect(page.locator(".station[data-state=skipped]")).to_have_attribute("data-slug", "retrieval")
    expect(known.journey.go("retrieval")).to_contain_text("not asked for in this request")
    assert {*EXPECTED, "retrieval"} == {stage.slug for stage in STAGES}


def test_the_last_row_of_the_map_is_what_the_running_attention_weighed(known: Known) -> None:
    tolerance = 1e-5 if known.kernel == "float32" else 2e-3
    served = known.journey.view("attention", layer=LAYER, head=HEAD)[1]["weights"]
    row = drawn_row(known.journey.go("softmax"), served[-1].tolist())
    assert row == served[-1].tolist()
    captured = known.run.captured.rows[len(row) - 1]
    distances = np.abs(captured.numpy() - np.array(row)).max(axis=1)
    assert distances[HEAD] <= tolerance
    assert min(np.delete(distances, HEAD)) > 10 * tolerance  # no other head would have passed
    for position, values in enumerate(served):
        mine = known.run.captured.rows[position][HEAD].numpy()
        assert np.abs(values[: position + 1] - mine).max() <= tolerance


def drawn_row(stage: Locator, wanted: list[float]) -> list[float | None]:
    """The last row of the map, once it is the wanted one: a map still being drawn shows the head before."""
    deadline = time.monotonic() + WAIT_S
    while (row := map_of(stage)[-1]) != wanted and time.monotonic() < deadline:
        stage.page.wait_for_timeout(50)
    return row


@pytest.mark.parametrize("slug", EXPECTED)
def test_every_stage_shows_what_is_computed_elsewhere(known: Known, slug: str) -> None:
    stage = open_stage(known, slug, STEP)
    if slug in FOLDS:
        stage.locator(f"[data-fold={FOLDS[slug]}] > summary").click()
    for name, value in EXPECTED[slug](known).items():
        assert shown(stage, name) == value, name


def test_routing_names_what_the_numbers_depend_on(known: Known) -> None:
    expect(known.journey.go("routing")).to_contain_text(known.run.fingerprint)


@pytest.mark.parametrize("step", [0, STEP, -1])
def test_the_probability_chart_is_the_ledger(known: Known, step: int) -> None:
    event = known.journey.steps[step]
    stage = open_stage(known, "probabilities", event["step"])
    for token, _, logit, raw, probability in event["candidates"]:
        assert shown(stage, f"logit-{token}") == logit
        assert shown(stage, f"raw-{token}") == raw
        assert shown(stage, f"probability-{token}") == probability
    stage = known.journey.go("sampling")
    for one in event["ledger"]["filters"]:
        assert shown(stage, f"survivors-{one['name']}") == one["num_survivors"]
        assert shown(stage, f"removed-{one['name']}") == one["removed_mass"]
    assert shown(stage, "draw") == event["ledger"]["draw"]


def test_every_token_is_the_one_that_numpy_draws(known: Known) -> None:
    setting = known.journey.response["sampling"]
    chosen = {name: setting[name] for name in ("seed", "temperature", "top_k", "top_p")}
    drawn = [independent.draw(known.run_logits(step), step, **chosen).token for step in range(len(known.answer))]
    assert drawn == known.answer
    assert [event["token"] for event in known.journey.steps] == known.answer
    assert len(known.answer) > STEP
    assert len(known.prompt) - 1 + STEP == POSITION
