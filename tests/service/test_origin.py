"""From where a browser's cookie counts: the very address that was asked for, if it is one of ours."""

from __future__ import annotations

from typing import Any

import pytest
from channels.testing import WebsocketCommunicator

from webtrace.asgi import application
from webtrace.gateway.origin import is_encrypted, origin_allowed


@pytest.mark.parametrize(
    ("origin", "host", "encrypted", "allowed"),
    [
        ("http://site.example", "site.example", False, True),
        ("https://site.example", "site.example", True, True),
        ("http://site.example:8000", "site.example:8000", False, True),
        ("https://site.example", "site.example", False, False),  # another scheme
        ("http://site.example", "site.example", True, False),
        ("http://site.example:1", "site.example:2", False, False),  # another port
        ("http://evil.example", "site.example", False, False),
        ("http://evil.example", "evil.example", False, False),  # a forged name that points here
        ("http://site.example.evil.example", "site.example", False, False),
        ("https://trusted.example", "site.example", False, True),
        ("null", "site.example", False, False),
        (None, "site.example", False, False),
        ("http://", "", False, False),
    ],
)
def test_origins(settings: Any, origin: str | None, host: str, encrypted: bool, allowed: bool) -> None:
    settings.ALLOWED_HOSTS = ["site.example"]
    settings.CSRF_TRUSTED_ORIGINS = ["https://trusted.example"]
    headers = {"host": host, **({"origin": origin} if origin is not None else {})}
    assert origin_allowed(headers, encrypted=encrypted) is allowed


@pytest.mark.parametrize("behind", [True, False])
def test_a_proxys_word_on_encryption_counts_only_where_there_is_one(settings: Any, behind: bool) -> None:
    settings.BEHIND_TLS = behind
    assert is_encrypted({"x-forwarded-proto": "https"}) is behind
    assert is_encrypted({}, "wss")
    assert not is_encrypted({})


async def test_there_is_no_other_socket() -> None:
    accepted, _ = await WebsocketCommunicator(application, "/ws/v2/").connect()
    assert not accepted
