"""A disk without room: every way in says so, nothing dies, and what was under way ends once there is room."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from asgiref.sync import sync_to_async
from channels.testing import WebsocketCommunicator
from django.db import OperationalError, connection
from django.test import Client

from tests.service.browser import Browser
from tests.service.cast import make_user
from tests.service.site import DATABASE, Site
from tests.service.socket_client import by_key
from webtrace.accounts.models import ApiKey
from webtrace.asgi import application
from webtrace.dispatch.models import Worker
from webtrace.storage_problem import storage_problem, until_stored

LONG = "Tell me " * 10_000  # more than the pages that are there can take


def failure(cause: BaseException) -> OperationalError:
    error = OperationalError(str(cause))
    error.__cause__ = cause
    return error


def sqlite_error(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("it")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (failure(sqlite_error(sqlite3.SQLITE_FULL)), "storage_full"),
        (failure(sqlite_error(sqlite3.SQLITE_BUSY)), "storage_unavailable"),
        (failure(sqlite_error(sqlite3.SQLITE_IOERR_WRITE)), "storage_unavailable"),
        (failure(sqlite_error(sqlite3.SQLITE_ERROR)), None),  # no such table: a fault of ours
        (failure(psycopg.errors.DiskFull()), "storage_full"),
        (failure(psycopg.errors.TooManyConnections()), "storage_unavailable"),
        (failure(psycopg.OperationalError("the connection is lost")), "storage_unavailable"),
        (ValueError("database or disk is full"), None),
        (None, None),
    ],
)
def test_what_it_is_called(error: BaseException | None, code: str | None) -> None:
    problem = storage_problem(error)
    assert (problem and problem.code) == code
    assert problem is None or (problem.retry_after or 0) > 0


@contextmanager
def no_room() -> Iterator[None]:
    """The database may not grow by a page."""

    def limit(pages: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"PRAGMA max_page_count = {pages}")

    with connection.cursor() as cursor:
        cursor.execute("PRAGMA page_count")
        limit(str(cursor.fetchone()[0]))
    try:
        yield
    finally:
        limit("1073741823")


def new_key(name: str = "owner") -> str:
    Worker.objects.all().delete()
    return ApiKey.make(user=make_user(name))[1]


@pytest.mark.django_db(transaction=True)
class TestWithoutRoom:
    def test_openais_clients_are_told_to_come_back(self) -> None:
        client = Client(headers={"Authorization": f"Bearer {new_key()}"}, raise_request_exception=False)
        body = {"model": "auto", "messages": [{"role": "user", "content": LONG}]}
        with no_room():
            answer = client.post("/v1/chat/completions", body, content_type="application/json")
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "storage_full"
        assert answer.json()["error"]["type"] == "server_error"
        assert int(answer["Retry-After"]) > 0

    def test_so_is_everybody_else(self) -> None:
        client = Client(headers={"Authorization": f"Bearer {new_key()}"}, raise_request_exception=False)

        def fail(*_: Any, **__: Any) -> None:
            raise failure(sqlite_error(sqlite3.SQLITE_FULL))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("webtrace.conversations.selectors.conversations", fail)
            answer = client.get("/api/v1/conversations")
            patch.setattr("webtrace.pages.views.me", fail)
            page = client.get("/")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "storage_full")
        assert answer.json()["error"]["retry_after"] > 0
        assert page.status_code == 503
        assert "no room left" in page.content.decode()
        assert "<!doctype html>" in page.content.decode()

    async def test_a_socket_is_told_and_lives(self) -> None:
        key = await sync_to_async(new_key)()
        headers = [(b"authorization", f"Bearer {key}".encode()), (b"host", b"localhost")]
        communicator = WebsocketCommunicator(application, "/ws/v1/", headers)
        assert (await communicator.connect())[0]
        room = no_room()
        await sync_to_async(room.__enter__)()
        try:
            await communicator.send_json_to({"type": "response.create", "event_id": "e", "input": LONG})
            error = await communicator.receive_json_from(timeout=10)
        finally:
            await sync_to_async(room.__exit__)(None, None, None)
        assert (error["type"], error["code"], error["event_id"]) == ("error", "storage_full", "e")
        assert error["retry_after"] > 0
        await communicator.send_json_to({"type": "response.create", "event_id": "e", "input": LONG})
        assert (await communicator.receive_json_from(timeout=10))["type"] == "response.created"
        await communicator.disconnect()


async def test_a_write_waits_for_room_and_no_other_failure_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webtrace.storage_problem.FIRST_WAIT_S", 0.001)
    failures: list[BaseException] = [failure(sqlite_error(sqlite3.SQLITE_FULL)) for _ in range(3)]

    async def write() -> str:
        if failures:
            raise failures.pop()
        return "written"

    assert await asyncio.wait_for(until_stored(write, "It"), 10) == "written"
    failures.append(ValueError("a fault of ours"))
    with pytest.raises(ValueError, match="fault of ours"):
        await until_stored(write, "It")


@pytest.mark.parametrize("address", ["/v1/nothing", "/api/v1/nothing"])
def test_an_address_that_leads_nowhere_says_so_in_json(client: Client, db: None, address: str) -> None:
    answer = client.get(address)
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "not_found"


@contextmanager
def held_by_somebody(site: Site) -> Iterator[sqlite3.Connection]:
    """Another program has the right to write in the site's database, and keeps it."""
    other = sqlite3.connect(Path(site.environment["WEBTRACE_DATA"]) / DATABASE, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield other
    finally:
        other.close()


def test_who_only_reads_never_waits_for_who_writes(site: Site) -> None:
    key = site.new_key()
    with by_key(site, key) as talk:
        talk.create()
        response_id = talk.to_end()[-1]["response_id"]
    reader = Browser(site.url, {"Authorization": f"Bearer {key}"})
    addresses = [
        "/api/v1/me", "/api/v1/conversations", f"/api/v1/responses/{response_id}",
        f"/api/v1/responses/{response_id}/events", "/v1/models", "/healthz",
    ]  # fmt: skip
    with held_by_somebody(site) as writer, ThreadPoolExecutor() as threads:
        asked = [threads.submit(reader.get, address) for address in addresses]
        answers = [one.result(timeout=15) for one in asked]  # a write waits 20 s, and then fails
        assert writer.in_transaction
    assert [answer.status for answer in answers] == [200] * len(addresses)


def test_a_new_file_gets_its_settings_once(site: Site) -> None:
    with sqlite3.connect(Path(site.environment["WEBTRACE_DATA"]) / DATABASE) as reader:
        assert reader.execute("PRAGMA auto_vacuum").fetchone() == (2,)
        assert reader.execute("PRAGMA journal_mode").fetchone() == ("wal",)
