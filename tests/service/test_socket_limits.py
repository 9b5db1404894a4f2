"""What one connection may not do for ever: nonsense, floods, idling, outliving its credential."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from asgiref.sync import sync_to_async
from channels.testing import WebsocketCommunicator

from tests.service.cast import make_user
from webtrace.accounts.models import ApiKey
from webtrace.api import socket
from webtrace.asgi import application

pytestmark = pytest.mark.django_db(transaction=True)
CANCEL = {"type": "response.cancel", "event_id": "c", "response_id": "nonsense"}


async def new_key(name: str) -> str:
    user = await sync_to_async(make_user)(name)
    _, key = await sync_to_async(ApiKey.make)(user=user)
    return key


@pytest.fixture
async def key() -> str:
    return await new_key("owner")


@asynccontextmanager
async def connected(key: str) -> AsyncIterator[WebsocketCommunicator]:
    """A connection inside this process, where its clocks can be set."""
    headers = [(b"authorization", f"Bearer {key}".encode()), (b"host", b"localhost")]
    communicator = WebsocketCommunicator(application, "/ws/v1/", headers)
    accepted, _ = await communicator.connect()
    assert accepted
    yield communicator
    await communicator.disconnect()


async def closed_with(communicator: WebsocketCommunicator) -> tuple[str, int]:
    """The error's code and the close code."""
    error = await communicator.receive_json_from(timeout=5)
    message = await communicator.receive_output(timeout=5)
    assert message["type"] == "websocket.close"
    return error["code"], message["code"]


async def test_nonsense_after_nonsense_ends_it(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "MAX_UNREADABLE", 3)
    async with connected(key) as communicator:
        for _ in range(2):
            await communicator.send_to(text_data="{")
            assert (await communicator.receive_json_from())["code"] == "invalid_json"
        await communicator.send_json_to(CANCEL)  # readable, though it finds nothing: the count is for a row of them
        assert (await communicator.receive_json_from())["code"] == "not_found"
        for _ in range(3):
            await communicator.send_to(text_data="{")
            assert (await communicator.receive_json_from())["code"] == "invalid_json"
        assert await closed_with(communicator) == ("bad_frames", 4400)


async def test_a_flood_of_frames_ends_it(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "MAX_FRAMES", 5)
    async with connected(key) as communicator:
        for _ in range(5):
            await communicator.send_json_to(CANCEL)
            assert (await communicator.receive_json_from())["code"] == "not_found"
        await communicator.send_json_to(CANCEL)
        assert await closed_with(communicator) == ("rate_limited", 4429)


async def test_only_so_many_connections_a_user(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "MAX_SOCKETS", 2)
    async with connected(key) as first, connected(key):
        async with connected(key) as one_more:
            assert await closed_with(one_more) == ("too_many_connections", 4429)
        async with connected(await new_key("somebody else")) as other:
            assert await other.receive_nothing(timeout=0.05)
        assert await first.receive_nothing(timeout=0.05)


async def test_idling_ends_it(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "RECHECK_S", 0.02)
    monkeypatch.setattr(socket, "IDLE_S", 0.05)
    async with connected(key) as communicator:
        assert await closed_with(communicator) == ("idle", 4408)


async def test_a_credential_is_checked_on_a_timer(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "RECHECK_S", 0.02)
    async with connected(key) as communicator:
        assert await communicator.receive_nothing(timeout=0.1)
        await ApiKey.objects.all().adelete()
        assert await closed_with(communicator) == ("unauthenticated", 4401)
