"""The stages of a model unlike the default one: windows, more norms, another activation, stretched positions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, expect

from inference.text.byte_level import BYTE_CHARACTERS, BYTE_LEVEL
from tests.browser.conftest import ask
from tests.browser.visit import Journey, shown, visit
from tests.inference.foreign import make_model
from tests.service.site import running_site

pytestmark = pytest.mark.browser

WINDOW = 8
SLIDING, FULL = 1, 5  # layers that look through the window, and at everything
END = 256
TEMPLATE = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}"
SHOWN = ["embeddings", "positions", "qkv", "scores", "scale", "mask", "softmax", "weighted_sum", "heads"]
SHOWN += ["residual_norm", "feed_forward", "logits", "probabilities"]


def write_checkpoint(folder: Path) -> None:
    """A tiny random Gemma 3 whose tokens are bytes."""
    turned = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "rope_theta": 50000.0}
    model = make_model(
        "Gemma3",
        vocab_size=END + 1,
        num_hidden_layers=6,
        query_pre_attn_scalar=25,
        head_dim=16,
        sliding_window=WINDOW,
        attention_bias=True,
        max_position_embeddings=2048,
        rope_parameters={"full_attention": turned, "sliding_attention": {"rope_type": "default", "rope_theta": 5e3}},
    )
    model.save_pretrained(folder)
    write_tokenizer(folder)  # after it, for it writes a generation_config.json of its own


def write_tokenizer(folder: Path) -> None:
    """Every byte is a token, its id is the byte."""
    end = {"id": END, "content": "<|end|>", "special": True, "single_word": False, "lstrip": False, "rstrip": False}
    definition = {
        "version": "1.0",
        "added_tokens": [{**end, "normalized": False}],
        "pre_tokenizer": BYTE_LEVEL,
        "model": {"type": "BPE", "vocab": {c: i for i, c in enumerate(BYTE_CHARACTERS)}, "merges": []},
    }
    (folder / "tokenizer.json").write_text(json.dumps(definition))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|end|>"}))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    (folder / "generation_config.json").write_text(json.dumps({"do_sample": True, "top_k": 64, "temperature": 1.2}))


@pytest.fixture(scope="module")
def journey(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Journey]:
    folder = tmp_path_factory.mktemp("gemma")
    write_checkpoint(folder)
    with (
        running_site(WEBTRACE_ENGINE="model", WEBTRACE_MODEL=str(folder), WEBTRACE_KERNEL="float32") as site,
        visit(browser, site) as made,
    ):
        settings = json.dumps({"temperature": 0.8, "seed": 7, "max_tokens": 4})
        made.page.evaluate("settings => localStorage.setItem('sampling', settings)", settings)
        made.page.reload()
        ask(made.page, "the cat and the dog and the cow")
        expect(made.page.locator(".answer-state").last).to_contain_text(re.compile("Complete|Cut"), timeout=60_000)
        yield made


def open_at(journey: Journey, slug: str, layer: int) -> Locator:
    address = f"#stage={slug}&layer={layer}&head=3&position=20&step=1&key=17"
    journey.page.evaluate("address => { location.hash = address; }", address)
    stage = journey.page.locator(f"#stage-{slug}")
    expect(stage).to_be_visible()
    return stage


def test_the_browser_recomputes_what_the_server_says(journey: Journey) -> None:
    for layer in (SLIDING, FULL):
        for slug in SHOWN:
            stage = open_at(journey, slug, layer)
            if stage.locator(".stage-fold:not([open]) > summary").count():
                stage.locator(".stage-fold > summary").click()
            expect(stage.locator(".stage-arithmetic [data-agrees]").first).to_be_visible()
            assert stage.locator('[data-agrees="false"]').all_inner_texts() == [], (slug, layer)


def test_stages_say_what_this_model_does_otherwise(journey: Journey) -> None:
    mask = open_at(journey, "mask", SLIDING)
    expect(mask).to_contain_text(f"the last {WINDOW} keys, its own included")
    assert shown(mask, "allowed") == WINDOW
    expect(open_at(journey, "mask", FULL)).to_contain_text("the 20 positions before it")
    expect(open_at(journey, "scale", SLIDING)).to_contain_text("√25 = 5")
    expect(open_at(journey, "qkv", SLIDING)).to_contain_text("query, normalised")
    expect(open_at(journey, "positions", FULL)).to_contain_text("stretched to longer texts")
    expect(open_at(journey, "embeddings", FULL)).to_contain_text("the first state is the row times")
    expect(open_at(journey, "feed_forward", FULL)).to_contain_text("gelu_tanh(gate) × up")
    expect(open_at(journey, "heads", FULL)).to_contain_text("brought to a common size")


def test_settings_begin_with_the_model_s_own_defaults_and_what_a_person_set_stays(journey: Journey) -> None:
    page = journey.page
    page.locator(".settings > summary").click()
    expect(page.locator("#setting-top_k")).to_have_value("64")
    expect(page.locator("#setting-top_k-help")).to_contain_text("this model's default is 64")
    expect(page.locator("#setting-temperature")).to_have_value("0.8")
    expect(page.locator("#setting-temperature-help")).to_contain_text("this model's default is 1.2")
    page.get_by_role("button", name="Back to the defaults").click()
    expect(page.locator("#setting-temperature")).to_have_value("1.2")
