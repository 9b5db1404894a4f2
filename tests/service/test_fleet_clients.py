"""Clients against daphne, a worker, Redis and PostgreSQL: the same contract as under `serve`."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from openai import OpenAI

from tests.service.browser import Browser
from tests.service.fleet import FLEET_TEXT, Fleet, running_fleet
from tests.service.socket_client import by_cookie, by_key, text_of
from tests.services import Services

pytestmark = pytest.mark.services
SHORT = {"max_tokens": 5}


@pytest.fixture(scope="module")
def fleet(services: Services) -> Iterator[Fleet]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("WEBTRACE_GUESTS", "1")
        environment.setenv("WEBTRACE_GUEST_ANSWERS_PER_HOUR", "3")
        with running_fleet(services, num_workers=1) as running:
            yield running


@pytest.fixture(scope="module")
def fleet_key(fleet: Fleet) -> str:
    return fleet.new_key()


def test_an_answer_streams_with_consecutive_numbers(fleet: Fleet, fleet_key: str) -> None:
    with by_key(fleet, fleet_key) as talk:
        talk.create()
        events = talk.to_end()
    assert text_of(events) == events[-1]["text"]
    assert FLEET_TEXT.startswith(events[-1]["text"][:200])
    for epoch in (0, 1):
        numbers = [event["sequence_number"] for event in events if event["epoch"] == epoch]
        assert numbers == list(range(1, len(numbers) + 1))


def test_openais_client(fleet: Fleet, fleet_key: str) -> None:
    with OpenAI(base_url=f"{fleet.url}/v1", api_key=fleet_key, max_retries=0, timeout=20) as client:
        messages: Any = [{"role": "user", "content": "hi"}]
        whole = client.chat.completions.create(model="auto", messages=messages, max_tokens=20)
        text = whole.choices[0].message.content
        assert text
        assert FLEET_TEXT.startswith(text)
        stream = client.chat.completions.create(model="auto", messages=messages, max_tokens=20, stream=True)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == text


def test_requests_leave_no_connection_behind(fleet: Fleet, fleet_key: str) -> None:
    def ask(_: int) -> int:
        return Browser(fleet.url, {"Authorization": f"Bearer {fleet_key}"}).get("/api/v1/me").status

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(ask, range(40))) == {200}
    code = """
from django.db import connection
with connection.cursor() as cursor:
    cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
    result = cursor.fetchone()[0]
"""
    assert fleet.python(code) < 12  # this one, the sockets' and the worker's threads


def test_limits_are_shared_and_forwarded_for_is_not_believed(fleet: Fleet) -> None:
    ends = []
    for number in range(4):
        forged = {"X-Forwarded-For": f"10.0.0.{number}"}
        with by_cookie(fleet, fleet.browser(**forged), **forged) as talk:
            talk.create(sampling=SHORT)
            ends.append(talk.to_end()[-1])
    assert [end["finish_reason"] for end in ends] == ["length"] * 3 + ["refused"]
    assert ends[-1]["error"]["code"] == "rate_limited"


def test_text_no_database_can_hold_is_refused_not_lost(fleet: Fleet, fleet_key: str) -> None:
    with by_key(fleet, fleet_key) as talk:
        talk.send('{"type": "response.create", "event_id": "a", "input": "a\\u0000b"}')
        assert talk.next()["field"] == "input"
        talk.create("x" * 100_001)
        assert talk.to_end()[-1]["error"]["field"] == "input"
        talk.create(sampling=SHORT)
        assert talk.to_end()[-1]["finish_reason"] == "length"


def test_a_key_revoked_elsewhere_closes_the_socket(fleet: Fleet) -> None:
    browser, password = fleet.browser(), "long enough 17"
    assert browser.submit("/accounts/signup/", username="ada", password1=password, password2=password).status == 200
    page = browser.submit("/accounts/keys/", name="mine").body.decode()
    key = page.split('data-name="new-key">', 1)[1].split("<", 1)[0]
    with by_key(fleet, key) as talk:
        talk.create(sampling=SHORT)
        assert talk.to_end()[-1]["finish_reason"] == "length"
        revoke = page.split('action="/accounts/keys/', 1)[1].split('"', 1)[0]
        assert browser.submit(f"/accounts/keys/{revoke}").status == 200
        assert talk.next()["code"] == "unauthenticated"
        assert talk.close_code() == 4401


def test_a_web_process_that_stops_says_so(fleet: Fleet, fleet_key: str) -> None:
    """The last test of this fleet: nothing answers afterwards."""
    with by_key(fleet, fleet_key) as talk:
        talk.create()
        talk.until("trace.step")
        assert fleet.process is not None
        fleet.process.terminate()
        assert talk.close_code() == 1012
