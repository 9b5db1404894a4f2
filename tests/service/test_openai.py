"""OpenAI's own client against the live service."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai import OpenAI

from tests.service.site import FAKE_TEXT, Site

QUESTION: Any = [{"role": "user", "content": "Tell me a political joke"}]


@pytest.fixture
def client(site: Site, key: str) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{site.url}/v1", api_key=key, max_retries=0, timeout=20) as client:
        yield client


def ask(client: OpenAI, **more: Any) -> Any:
    return client.chat.completions.create(**{"model": "auto", "messages": QUESTION, **more})


def test_models(client: OpenAI) -> None:
    models = client.models.list().data
    assert len(models) == 1
    assert models[0].model_extra == {"sampling": {}}, "this checkpoint states no defaults"
    answer = ask(client, model=models[0].id)
    assert answer.model == models[0].id


def test_a_whole_answer(client: OpenAI) -> None:
    answer = ask(client, temperature=0.5, seed=7)
    assert answer.choices[0].message.content == FAKE_TEXT
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer.usage.completion_tokens > 10


def test_a_streamed_answer(client: OpenAI) -> None:
    stream = client.chat.completions.create(
        model="auto",
        messages=QUESTION,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == FAKE_TEXT
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens > 10
    assert len({chunk.id for chunk in chunks}) == 1


def test_length_ends_it(client: OpenAI) -> None:
    for limit in ({"max_tokens": 5}, {"max_completion_tokens": 5}):
        answer = ask(client, **limit)
        assert answer.choices[0].finish_reason == "length"
        assert answer.usage.completion_tokens == 5


def test_logprobs_belong_to_the_tokens(client: OpenAI) -> None:
    answer = ask(client, logprobs=True, top_logprobs=3, max_tokens=8)
    tokens = answer.choices[0].logprobs.content
    assert len(tokens) == 8
    assert all(len(token.top_logprobs) == 3 and token.logprob <= 0 for token in tokens)
    assert "".join(token.token for token in tokens) == answer.choices[0].message.content


def test_content_in_parts_and_a_system_message(client: OpenAI) -> None:
    parts = [{"type": "text", "text": "Tell me"}, {"type": "text", "text": " a joke"}]
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": parts}]
    answer = ask(client, messages=messages)
    assert answer.choices[0].message.content == FAKE_TEXT


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"n": 2}, "n"),
        ({"tools": []}, "tools"),
        ({"temperature": -1}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"stop": ["x"] * 17}, "stop"),
        ({"max_tokens": 10**7}, "max_tokens"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user", "content": ""}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0].type"),
        ({"response_format": {"type": "json_object"}}, "response_format.type"),
        ({"top_logprobs": 3}, "top_logprobs"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_not_supported_is_named(client: OpenAI, more: dict[str, Any], param: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, **more)
    assert caught.value.param == param
    assert caught.value.type == "invalid_request_error"


def test_a_model_nobody_has_is_not_found(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        ask(client, model="gpt-17")
    assert caught.value.param == "model"


def test_a_wrong_key_is_refused(site: Site) -> None:
    with OpenAI(base_url=f"{site.url}/v1", api_key="wt_wrong", max_retries=0) as client:
        for call in (client.models.list, lambda: ask(client)):
            with pytest.raises(openai.AuthenticationError):
                call()


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_goes_away_stops_it(site: Site, stream: bool) -> None:
    key = site.new_key()
    with OpenAI(base_url=f"{site.url}/v1", api_key=key, max_retries=0, timeout=0.1) as client:
        if stream:
            with ask(client, stream=True, timeout=10) as answer:
                next(iter(answer))
        else:
            with pytest.raises(openai.APITimeoutError):
                ask(client)
    code = f"""
import time
from webtrace.accounts.models import ApiKey
user = ApiKey.objects.get(digest=ApiKey.digest_of({key!r})).user
deadline = time.monotonic() + 10
while user.responses.get().finish_reason == "" and time.monotonic() < deadline:
    time.sleep(0.02)
result = [user.responses.get().finish_reason, user.responses.get().text]
"""
    finish_reason, text = site.python(code)
    assert finish_reason == "disconnected"
    assert text != FAKE_TEXT


def test_a_refused_request_leaves_its_journey(site: Site) -> None:
    key = site.new_key()
    with OpenAI(base_url=f"{site.url}/v1", api_key=key, max_retries=0) as client, pytest.raises(openai.BadRequestError):
        ask(client, temperature=-1)
    code = f"""
from webtrace.accounts.models import ApiKey
from webtrace.conversations import log
response = ApiKey.objects.get(digest=ApiKey.digest_of({key!r})).user.responses.get()
result = [response.finish_reason, response.num_answer_tokens, [line.type for line in log.read(response.pk)]]
"""
    types = ["response.created", "trace.stage", "trace.stage", "response.failed"]
    assert site.python(code) == ["refused", 0, types]
