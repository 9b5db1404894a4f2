"""Sessions in the database, but for visitors: their key needs no row until there is something to remember."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.sessions.backends import db
from django.contrib.sessions.backends.base import VALID_KEY_CHARS
from django.http import HttpResponse
from django.utils.crypto import constant_time_compare, get_random_string, salted_hmac

HALF = 20  # characters: of chance, and of the signature that shows the key is one of ours


class SessionStore(db.SessionStore):
    """What `SESSION_ENGINE` names."""

    def load(self) -> dict[str, Any]:
        """As ever, only that a visitor's key stays theirs although there is no row."""
        key = self.session_key
        data: dict[str, Any] = super().load()
        if self.session_key is None and is_visitor_key(key):
            self._session_key = key
        return data

    def begin_visit(self) -> None:
        """Give an empty session a visitor's key."""
        chance = get_random_string(HALF, VALID_KEY_CHARS)
        self._session_key = chance + _signature(chance)


def is_visitor_key(key: str | None) -> bool:
    """Whether this service has given the key to a visitor. It allows them to become a guest, and nothing else."""
    return key is not None and constant_time_compare(key[HALF:], _signature(key[:HALF]))


def hand_out(store: SessionStore, response: HttpResponse) -> None:
    """Send the session's cookie with this response. Django's middleware does so only when it saves a row."""
    response.set_cookie(
        settings.SESSION_COOKIE_NAME,
        store.session_key or "",
        max_age=settings.SESSION_COOKIE_AGE,
        domain=settings.SESSION_COOKIE_DOMAIN,
        path=settings.SESSION_COOKIE_PATH,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=settings.SESSION_COOKIE_HTTPONLY,
        samesite=settings.SESSION_COOKIE_SAMESITE,
    )


def _signature(chance: str) -> str:
    return salted_hmac("webtrace visitor", chance).hexdigest()[:HALF]
