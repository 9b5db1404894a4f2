"""Guests: users without a password, made when a browser session asks for its first answer."""

from __future__ import annotations

import datetime
import secrets

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone

from webtrace.accounts.models import User

GUEST_MARK = "guest_welcome"
BACKEND = "django.contrib.auth.backends.ModelBackend"


def ensure_session(request: HttpRequest) -> None:
    """Give a visitor a session, so that their first request can make them a guest. No user is made yet."""
    if settings.GUESTS and not request.user.is_authenticated and GUEST_MARK not in request.session:
        request.session[GUEST_MARK] = True


def remove_stale(*, limit: int) -> int:
    """Delete guests with everything of theirs when nothing of it is younger than the setting's days. Returns how
    many, at most `limit`. Those who have signed up are no guests any more."""
    if not settings.GUEST_DAYS:
        return 0
    since = timezone.now() - datetime.timedelta(days=settings.GUEST_DAYS)
    stale = (
        User.objects.filter(is_guest=True, date_joined__lt=since)
        .exclude(responses__created_at__gte=since)
        .exclude(conversations__updated_at__gte=since)
    )
    removed = 0
    for guest_id in list(stale.values_list("pk", flat=True)[:limit]):
        with transaction.atomic():
            # Held by whoever starts a response too, and looked at again: they may have come back just now.
            if User.objects.select_for_update().filter(pk=guest_id).exists():
                removed += bool(stale.filter(pk=guest_id).delete()[0])
    return removed


def guest_of_session(session_key: str) -> User | None:
    """The user bound to this session; a new guest where there is none yet. Null: there is no such session.

    The session's row is locked meanwhile, so that two tabs asking at once become one guest. The session keeps its
    key: a WebSocket has no way to hand out another cookie. Signing in later flushes it.
    """
    with transaction.atomic():
        row = Session.objects.select_for_update().filter(session_key=session_key).first()
        if row is None:
            return None
        store = SessionStore(session_key)
        if SESSION_KEY in store:
            return User.objects.filter(pk=store[SESSION_KEY]).first()
        guest = User(username=f"guest-{secrets.token_hex(6)}", is_guest=True)
        guest.set_unusable_password()
        guest.save()
        store[SESSION_KEY] = str(guest.pk)
        store[BACKEND_SESSION_KEY] = BACKEND
        store[HASH_SESSION_KEY] = guest.get_session_auth_hash()
        store.save()
    return guest
