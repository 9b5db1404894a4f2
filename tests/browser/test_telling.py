"""What tells with real values: what is called embedding, one word in two sentences, a head watched live."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import Browser, expect

from inference.text import Tokenizer
from tests.browser.conftest import ask
from tests.browser.independent import Weights, forward, softmax
from tests.browser.known import model_of
from tests.browser.visit import Journey, all_shown, shown, visit
from tests.service.site import Site

pytestmark = pytest.mark.browser

SAMPLING = {"temperature": 0.8, "seed": 7, "max_tokens": 24}  # the same short answer every time
LAYER, POSITION = 12, 30


@pytest.fixture(scope="module")
def journey(browser: Browser, real_site: Site) -> Iterator[Journey]:
    with visit(browser, real_site) as made:
        made.page.evaluate("settings => localStorage.setItem('sampling', settings)", json.dumps(SAMPLING))
        made.page.reload()
        ask(made.page, "Tell me a political joke")
        end = re.compile("Complete|Cut at the limit")
        expect(made.page.locator(".answer-state").last).to_contain_text(end, timeout=60_000)
        made.read_back()
        yield made


def test_three_embeddings_stand_side_by_side_and_two_spaces_are_not_compared(journey: Journey) -> None:
    address = f"#page=embeddings&stage=softmax&layer={LAYER}&position={POSITION}"
    journey.page.evaluate("address => { location.hash = address; }", address)
    page = journey.page.locator("#page-embeddings")
    expect(page.locator("[data-embedding]")).to_have_count(3)
    row = journey.view("embeddings", position=POSITION)[1]["row"].astype(float)
    state = journey.view("residual_norm", layer=LAYER, position=POSITION)[1]["new"].astype(float)
    sentence = journey.view("sentence")[1]["vector"].astype(float)
    values = all_shown(page)
    for name, vector in (("row", row), ("state", state), ("sentence", sentence)):
        assert values[f"{name}-width"] == len(vector)
        assert values[f"{name}-norm"] == pytest.approx(np.linalg.norm(vector), rel=1e-6)
    assert len(sentence) == 384
    assert values["sentence-norm"] == pytest.approx(1, rel=1e-5)
    cosine = row @ state / np.linalg.norm(row) / np.linalg.norm(state)
    assert values["cosine-row-state"] == pytest.approx(cosine, abs=1e-6)
    expect(page.locator("[data-refused]")).to_have_count(2)
    expect(page.locator("[data-refused=row-sentence]")).to_contain_text("576 numbers")
    expect(page.locator("[data-table=attention-retrieval] tbody tr")).to_have_count(6)
    expect(page.locator("[data-agrees=false]")).to_have_count(0)


def test_one_word_in_two_sentences_drifts_apart_layer_by_layer(journey: Journey) -> None:
    journey.page.evaluate("location.hash = '#page=meaning&stage=softmax'")
    page = journey.page.locator("#page-meaning")
    page.get_by_role("button", name="Run both").click()
    expect(page.locator("[data-table=meaning] tbody tr")).to_have_count(31, timeout=60_000)
    assert shown(page, "row-difference") == 0
    cosines = [shown(page, f"cosine-{layer}") for layer in range(31)]
    assert cosines[0] == 1
    assert min(cosines) < 0.9
    expect(page).to_contain_text("·bank")
    # The same two requests as the service has them, asked for without the page.
    bodies = [journey.get(f"conversations/{one['id']}") for one in journey.get("conversations")["conversations"][:2]]
    by_text = {body["messages"][0]["content"]: body["messages"][1]["response"]["id"] for body in bodies}
    first, second = (next(one for text, one in by_text.items() if word in text) for word in ("river", "account"))
    position = int(str(page.locator(".token-note").first.text_content()).split()[1])
    reply = journey.page.request.get(
        f"{journey.base}/api/v1/responses/{first}/views/contextual", params={"position": position, "other": second}
    )
    assert reply.ok, reply.text()
    page.get_by_label("Sentence 1").fill("Cats purr")
    page.get_by_label("Sentence 2").fill("No shared piece")
    page.get_by_role("button", name="Run both").click()
    expect(page.get_by_role("status")).to_contain_text("share no token", timeout=60_000)


WATCH_LIVE = """() => {
  window.live = [];
  new MutationObserver(() => {
    const step = document.querySelector("#stage-softmax [data-name=live-step]")?.dataset.value;
    if (step !== undefined && Number(step) !== window.live.at(-1)) window.live.push(Number(step));
  }).observe(document.body, { subtree: true, childList: true });
}"""  # a quick answer is over before it can be looked at from here


def test_a_watched_head_is_seen_live_and_alone(journey: Journey) -> None:
    page = journey.page
    page.get_by_title("Settings of the next answer").click()
    page.get_by_label("Longest answer").fill("120")
    page.get_by_label("Seed").fill("5")
    page.keyboard.press("Escape")
    page.evaluate("location.hash = '#stage=softmax&layer=3&head=2'")
    page.evaluate(WATCH_LIVE)
    ask(page, "Write a long story about a river and the people who live beside it")
    live = page.locator("#stage-softmax [data-name=live-step]")
    expect(page.locator(".answer-state").last).to_contain_text(re.compile("Complete|Cut"), timeout=90_000)
    expect(live).to_have_count(0)
    journey.read_back()
    rows = [one for one in journey.received if one["type"] == "trace.attention"]
    assert rows
    seen = page.evaluate("() => window.live")
    assert seen
    assert seen == [step for step in (one["step"] for one in rows) if step in seen]
    assert {(one["response_id"], one["layer"], one["head"]) for one in rows} == {(journey.response["id"], 3, 2)}
    assert all("sequence_number" not in one for one in rows)
    last = rows[-1]
    exact = journey.view("softmax", layer=3, head=2, step=last["step"])[1]["weights"]
    levels = np.frombuffer(base64.b64decode(last["weights"]), np.uint8)
    assert len(levels) == len(exact)
    assert np.abs(levels / 255 * last["largest"] - exact).max() <= last["largest"] / 255


def test_a_false_ending_can_be_likelier_than_the_true_one(journey: Journey, real_site: Site) -> None:
    """Every share on the page is that of a float64 pass over the same beginning, and in one row falsehood wins."""
    journey.page.evaluate("location.hash = '#page=misconceptions&stage=softmax'")
    claim = journey.page.locator("#page-misconceptions [data-claim=factual]")
    expect(claim.locator("[data-table=statements] tbody tr")).to_have_count(4)
    weights, words = Weights(model_of(real_site)), Tokenizer.load(model_of(real_site))
    wins = 0
    for index, row in enumerate(journey.view("statements")[0]["statements"]):
        shares = softmax(forward(weights, words.encode(row["beginning"]), layer=0).logits[-1])
        for truth in ("false", "true"):
            if row[truth] is not None:
                assert shown(claim, f"{truth}-{index}") == pytest.approx(shares[row[truth]["token"]], abs=0.01)
        wins += row["true"] is not None and shares[row["false"]["token"]] > shares[row["true"]["token"]]
    assert shown(claim, "falsehood-wins") == wins > 0


def test_one_step_of_training_on_a_copy_leaves_the_served_file_alone(journey: Journey) -> None:
    journey.page.evaluate("location.hash = '#page=training&stage=softmax'")
    page = journey.page.locator("#page-training")
    expect(page.locator("[data-table=gradients] tbody tr")).to_have_count(30, timeout=200_000)
    values = all_shown(page)
    assert values["loss_after"] < values["loss_before"]
    assert values["probability_before"] == pytest.approx(np.exp(-values["loss_before"]))
    assert all(values[f"{part}-{layer}"] > 0 for part in ("attention", "feed_forward") for layer in range(30))
    expect(page.locator("[data-name=sha256-same]")).to_have_attribute("data-value", "true")
    expect(page).to_contain_text("“The sky is”")
    expect(page.locator("[data-table=training-inference] tbody tr")).to_have_count(6)
