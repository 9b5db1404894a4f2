"""Guests: users without a password, made when a browser session asks for its first answer."""

from __future__ import annotations

import datetime
import secrets
from typing import cast

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.models import Session
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from webtrace.accounts.models import User
from webtrace.accounts.sessions import SessionStore, hand_out, is_visitor_key

BACKEND = "django.contrib.auth.backends.ModelBackend"


def welcome(request: HttpRequest, response: HttpResponse) -> None:
    """Give a visitor a session's key, with which their first request can make them a guest. Nothing is written yet."""
    store = cast(SessionStore, request.session)
    if settings.GUESTS and not request.user.is_authenticated and not is_visitor_key(store.session_key):
        store.begin_visit()
        hand_out(store, response)


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
    """The user bound to this visitor's session; a new guest where there is none yet. Null: it is no visitor's.

    The session's row is made if need be and locked meanwhile, so that two tabs asking at once become one guest. The
    session keeps its key: a WebSocket has no way to hand out another cookie. Signing in later flushes it.
    """
    if not is_visitor_key(session_key):
        return None
    with transaction.atomic():
        empty = {"session_data": "", "expire_date": timezone.now()}
        Session.objects.get_or_create(session_key=session_key, defaults=empty)
        Session.objects.select_for_update().get(session_key=session_key)
        store = SessionStore(session_key)
        if SESSION_KEY in store and (user := User.objects.filter(pk=store[SESSION_KEY]).first()):
            return user
        guest = User(username=f"guest-{secrets.token_hex(6)}", is_guest=True)
        guest.set_unusable_password()
        guest.save()
        store[SESSION_KEY] = str(guest.pk)
        store[BACKEND_SESSION_KEY] = BACKEND
        store[HASH_SESSION_KEY] = guest.get_session_auth_hash()
        store.save()
    return guest
