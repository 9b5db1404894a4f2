"""Several checkpoints side by side: listed by name, asked for by name, the first for whoever does not care."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import OpenAI

from inference.settings import DEFAULT_MODEL
from tests.service.site import FAKE_TEXT, ROOT, Site, running_site

FIRST, SECOND = "fake@int8", "fake@float32"
START_LIMIT_S = 60


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    model = Path(os.environ.get("WEBTRACE_DATA", ROOT / "data")).resolve() / "models" / DEFAULT_MODEL
    with running_site(WEBTRACE_MODEL=f"{model}@int8, {model}@float32") as running:
        yield running


@pytest.fixture(scope="module")
def client(site: Site) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{site.url}/v1", api_key=site.new_key(), max_retries=0, timeout=20) as client:
        deadline = time.monotonic() + START_LIMIT_S
        while len(client.models.list().data) < 2:
            assert time.monotonic() < deadline, "".join(site.output)
            time.sleep(0.05)
        yield client


def ask(client: OpenAI, model: str) -> Any:
    return client.chat.completions.create(model=model, messages=[{"role": "user", "content": "Tell me a joke"}])


def test_both_are_listed_the_first_one_first(client: OpenAI) -> None:
    assert [model.id for model in client.models.list().data] == [FIRST, SECOND]


@pytest.mark.parametrize(("asked", "answers"), [(FIRST, FIRST), (SECOND, SECOND), ("auto", FIRST)])
def test_the_model_asked_for_answers(client: OpenAI, asked: str, answers: str) -> None:
    for _ in range(3):  # whichever worker hears of it first
        answer = ask(client, asked)
        assert (answer.model, answer.choices[0].message.content) == (answers, FAKE_TEXT)


def test_another_model_is_refused_by_name(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match=f"there is {SECOND}, {FIRST}"):
        ask(client, "fake")
