"""From a credential to a principal: API keys for programs, sessions for browsers. Synchronous: uses the database."""

from __future__ import annotations

from django.conf import settings
from django.contrib import auth
from django.http import HttpRequest

from webtrace.accounts import key_use
from webtrace.accounts.guests import guest_of_session
from webtrace.accounts.models import ApiKey, User
from webtrace.accounts.sessions import SessionStore, is_visitor_key
from webtrace.gateway import limits
from webtrace.gateway.principal import Principal


class Unauthenticated(Exception):
    """The credential is missing, wrong, or no longer valid. The message may be shown."""


def by_key(authorization: str, address: str | None) -> Principal:
    """The owner of the key in an `Authorization: Bearer …` header. Raises Unauthenticated."""
    scheme, _, key = authorization.partition(" ")
    if scheme.lower() != "bearer" or not key.strip():
        raise Unauthenticated("The Authorization header must be `Bearer` and an API key.")
    found = ApiKey.objects.select_related("user").filter(digest=ApiKey.digest_of(key.strip()), revoked_at=None).first()
    if found is None or not found.user.is_active:
        raise Unauthenticated("This API key is unknown or revoked.")
    key_use.note(found)
    return Principal(found.user, "api key", address, key_id=found.pk)


def by_session(session_key: str | None, address: str | None) -> Principal | None:
    """Who this session belongs to; null for a visitor who may become a guest. Raises Unauthenticated."""
    if not session_key:
        raise Unauthenticated("Sign in, or send an API key in the Authorization header.")
    request = HttpRequest()
    request.session = SessionStore(session_key)
    user = auth.get_user(request)
    if isinstance(user, User):
        if user.is_guest and not settings.GUESTS:
            raise Unauthenticated("Guests are not admitted here; sign in.")
        return Principal(user, "guest" if user.is_guest else "user", address, session_key=session_key)
    if settings.GUESTS and is_visitor_key(session_key):
        return None
    raise Unauthenticated("This session has ended; sign in again.")


def guest(session_key: str | None, address: str | None) -> Principal:
    """The guest of a visitor's session, made now if need be. Raises Unauthenticated."""
    principal = by_session(session_key, address)
    if principal is not None:
        return principal
    if not limits.may_become_guest(address):
        raise Unauthenticated("Too many new guests come from this address; sign up, or try again in an hour.")
    assert session_key is not None  # by_session has found it
    guest_of_session(session_key)
    if (principal := by_session(session_key, address)) is None:
        raise Unauthenticated("This session has ended; load the page again.")
    return principal
