"""Two models side by side: both listed, each answers who asks for it; the page lets choose, shows the right one and
compares their tokenizers."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import OpenAI
from playwright.sync_api import Browser, expect

from inference.settings import DEFAULT_MODEL
from tests.browser.conftest import ask, await_end
from tests.browser.test_other_architecture import write_tokenizer
from tests.browser.visit import shown, visit
from tests.service.site import ROOT, Site, running_site

pytestmark = pytest.mark.browser

FIRST, SECOND = "fake@int8", "fake@float32"
SPOKEN = "Both say this."
START_LIMIT_S = 60


@pytest.fixture(scope="module")
def two_models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The second one's tokens are bytes."""
    model = Path(os.environ.get("WEBTRACE_DATA", ROOT / "data")).resolve() / "models" / DEFAULT_MODEL
    write_tokenizer(folder := tmp_path_factory.mktemp("bytes"))
    with running_site(WEBTRACE_MODEL=f"{model}@int8, {folder}@float32", WEBTRACE_FAKE_TEXT=SPOKEN) as running:
        yield running


@pytest.fixture(scope="module")
def client(two_models: Site) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{two_models.url}/v1", api_key=two_models.new_key(), max_retries=0, timeout=20) as client:
        deadline = time.monotonic() + START_LIMIT_S
        while len(client.models.list().data) < 2:
            assert time.monotonic() < deadline, "".join(two_models.output)
            time.sleep(0.05)
        yield client


def complete(client: OpenAI, model: str) -> Any:
    return client.chat.completions.create(model=model, messages=[{"role": "user", "content": "Tell me a joke"}])


def test_both_are_listed_the_first_one_first(client: OpenAI) -> None:
    assert [model.id for model in client.models.list().data] == [FIRST, SECOND]


@pytest.mark.parametrize(("asked", "answers"), [(FIRST, FIRST), (SECOND, SECOND), ("auto", FIRST)])
def test_the_model_asked_for_answers(client: OpenAI, asked: str, answers: str) -> None:
    for _ in range(3):  # whichever worker hears of it first
        answer = complete(client, asked)
        assert (answer.model, answer.choices[0].message.content) == (answers, SPOKEN)


def test_another_model_is_refused_by_name(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match=f"there is {SECOND}, {FIRST}"):
        complete(client, "fake")


def test_the_chosen_model_answers_and_is_shown(browser: Browser, two_models: Site) -> None:
    with visit(browser, two_models) as journey:
        page = journey.page
        page.locator(".settings > summary").click()
        choice = page.get_by_label("Model", exact=True)
        expect(choice.locator("option")).to_have_text([f"auto: {FIRST}", FIRST, SECOND])
        choice.select_option(SECOND)
        ask(page, "hello")
        await_end(page)
        expect(page.locator(".topbar-model")).to_contain_text(SECOND)
        expect(journey.go("routing")).to_contain_text(SECOND)
        journey.read_back()
        assert journey.response["model"] == SECOND
        page.reload()
        await_end(page)
        expect(page.locator(".topbar-model")).to_contain_text(SECOND)


def test_the_same_text_is_split_by_both_tokenizers(browser: Browser, two_models: Site, client: OpenAI) -> None:
    text = "Strawberries, привет"
    with visit(browser, two_models) as journey:
        ask(journey.page, text)
        await_end(journey.page)
        models = journey.go("tokens").locator("[data-part=models]")
        first, second = (models.locator(f'[data-model="{name}"]') for name in (FIRST, SECOND))
        expect(second.locator(".token")).to_have_count(len(text.encode()))
        expect(second.locator(".token").first).to_have_attribute("title", f"id {ord('S')}, word start")
        assert shown(second, "num_tokens") == len(text.encode())
        journey.read_back()
        info, tensors = journey.view("message_tokens", model=FIRST)
        assert shown(first, "num_tokens") == info["num_tokens"] == len(tensors["ids"]) < len(text)
        own = next(one["data"] for one in journey.of_type("trace.stage") if one["stage"] == "tokens")
        start, stop = own["user_span"]
        assert [piece["text"] for piece in info["pieces"]] == [piece[2] for piece in own["pieces"][start:stop]]
        expect(first.locator(".token")).to_have_count(stop - start)


def test_one_model_alone_is_compared_with_nothing(browser: Browser, site: Site) -> None:
    with visit(browser, site) as journey:
        ask(journey.page, "hello")
        await_end(journey.page)
        stage = journey.go("tokens")
        expect(stage.locator("[data-part=pieces] .token").first).to_be_visible()
        expect(stage.locator("[data-part=models]")).to_be_hidden()
