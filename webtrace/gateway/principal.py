"""Who is asking, as far as limits and access are concerned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from django.conf import settings

from webtrace.accounts.models import User

Kind = Literal["user", "guest", "api key"]


@dataclass(frozen=True)
class Principal:
    """The person behind a request and how they proved it: a session (signed in or guest) or an API key.

    `address` is the client's network address, taken through trusted proxies only.
    """

    user: User
    kind: Kind
    address: str | None
    session_key: str | None = None
    key_id: int | None = None

    @property
    def answers_per_hour(self) -> int:
        """An admin's own figure for this user, else the setting of their kind."""
        if self.user.answers_per_hour is not None:
            return self.user.answers_per_hour
        return settings.GUEST_ANSWERS_PER_HOUR if self.kind == "guest" else settings.USER_ANSWERS_PER_HOUR

    @property
    def max_tokens(self) -> int:
        """The longest answer this principal may ask for, in tokens."""
        if self.user.max_tokens is not None:
            return self.user.max_tokens
        return settings.GUEST_MAX_TOKENS if self.kind == "guest" else settings.USER_MAX_TOKENS
