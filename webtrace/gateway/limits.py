"""What a user, a guest or an address may have in an hour: answers, guests, accounts, passwords tried."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from functools import lru_cache

from django.conf import settings
from limits import RateLimitItemPerHour
from limits.storage import storage_from_string
from limits.strategies import MovingWindowRateLimiter

import webtrace.gateway.budgets  # noqa: F401 - makes django:// known
from webtrace.gateway.address import address_group
from webtrace.gateway.principal import Principal


@dataclass(frozen=True)
class Allowance:
    """Where a principal stands. `resets_in_s` is when the oldest answer leaves the hour (0: nothing was used)."""

    limit: int
    remaining: int
    resets_in_s: float


_making = threading.Lock()


def limiter() -> MovingWindowRateLimiter:
    """Counts in Redis where there is one, else in the database: both atomic."""
    with _making:  # the library loads its parts when first used, which two threads must not do at once
        return _limiter()


@lru_cache(maxsize=1)
def _limiter() -> MovingWindowRateLimiter:
    return MovingWindowRateLimiter(storage_from_string(settings.REDIS_URL or "django://"))


def consume(principal: Principal) -> tuple[bool, Allowance]:
    """Take one answer out of every budget that applies: whether it was there, and what is left after it.

    A key spends its owner's budget. A guest also spends their address's, or a new browser session would be a
    new budget. Nothing is taken from one budget when another is empty.
    """
    budgets = _budgets(principal)
    allowed = all(limiter().test(item, *key) for item, key in budgets)
    # Taking can still fail where another request was faster: hit() is the atomic one.
    allowed = allowed and all([limiter().hit(item, *key) for item, key in budgets])
    return allowed, allowance(principal)


def allowance(principal: Principal) -> Allowance:
    """The tightest of the budgets that apply."""
    standing = []
    for item, key in _budgets(principal):
        stats = limiter().get_window_stats(item, *key)
        used = item.amount - stats.remaining
        resets = max(stats.reset_time - time.time(), 0.0) if used else 0.0
        standing.append(Allowance(item.amount, max(stats.remaining, 0), resets))
    return min(standing, key=lambda allowance: (allowance.remaining, -allowance.resets_in_s))


def clear(principal: Principal) -> None:
    """Forget what was used."""
    for item, key in _budgets(principal):
        limiter().clear(item, *key)


def may_store_refusal(principal: Principal) -> bool:
    """Whether a refused request still gets a journey of its own, or is only counted: a flood must not fill the
    database."""
    item = RateLimitItemPerHour(settings.STORED_REFUSALS_PER_HOUR, namespace="refusals")
    place = address_group(principal.address) if principal.kind == "guest" else f"user {principal.user.pk}"
    return bool(settings.STORED_REFUSALS_PER_HOUR) and limiter().hit(item, place)


def may_become_guest(address: str | None) -> bool:
    """Whether one more new guest from this address is made a user row."""
    item = RateLimitItemPerHour(settings.NEW_GUESTS_PER_HOUR, namespace="guests")
    return limiter().hit(item, address_group(address))


def may_sign_up(address: str | None) -> bool:
    """Whether one more account is made from this address: each has limits of its own, and its password is hashed."""
    item = RateLimitItemPerHour(settings.NEW_USERS_PER_HOUR, namespace="users")
    return limiter().hit(item, address_group(address))


def may_try_password(address: str | None) -> bool:
    """Whether one more password from this address is compared with its hash, which costs the same right or wrong."""
    item = RateLimitItemPerHour(settings.PASSWORDS_PER_HOUR, namespace="passwords")
    return limiter().hit(item, address_group(address))


def _budgets(principal: Principal) -> list[tuple[RateLimitItemPerHour, tuple[str, ...]]]:
    item = RateLimitItemPerHour(principal.answers_per_hour, namespace="answers")
    budgets: list[tuple[RateLimitItemPerHour, tuple[str, ...]]] = [(item, ("user", str(principal.user.pk)))]
    if principal.kind == "guest":
        item = RateLimitItemPerHour(settings.GUEST_ANSWERS_PER_HOUR, namespace="answers")
        budgets.append((item, ("address", address_group(principal.address))))
    return budgets
