"""GET /api/v1/me: who is asking and what they may still do."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest

from webtrace.accounts.models import User
from webtrace.gateway import address, limits
from webtrace.gateway.principal import Principal


def show(request: HttpRequest, principal: Principal | None) -> dict[str, Any]:
    return me(principal, address.of_request(request))


def me(principal: Principal | None, place: str | None) -> dict[str, Any]:
    """`{signed_in, username, guest, limit: {limit, remaining, resets_in_s}, max_tokens}`. A visitor has what the
    guest they would become has; where there are no guests, nothing."""
    if principal is None:
        if not settings.GUESTS:
            nothing = {"limit": 0, "remaining": 0, "resets_in_s": 0.0}
            return {"signed_in": False, "username": None, "guest": False, "limit": nothing, "max_tokens": 0}
        principal = Principal(User(is_guest=True), "guest", place)
    guest = principal.kind == "guest"
    return {
        "signed_in": not guest,
        "username": None if guest else principal.user.get_username(),
        "guest": guest,
        "limit": limits.allowance(principal),
        "max_tokens": principal.max_tokens,
    }
