"""Pages that tell with real values: what is called embedding, one word in two sentences."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import ask
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
    expect(page.locator("[data-table=against] tbody tr")).to_have_count(6)
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
