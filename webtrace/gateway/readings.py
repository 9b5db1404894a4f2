"""How often somebody may read what costs the engine or the log: views, pages of events, exports."""

from __future__ import annotations

import time
from functools import lru_cache

from django.conf import settings
from limits import RateLimitItemPerMinute
from limits.storage import storage_from_string
from limits.strategies import MovingWindowRateLimiter

from webtrace.gateway.address import address_group
from webtrace.gateway.principal import Principal

PEOPLE_AT_AN_ADDRESS = 4  # whose readings it may have together, as far as they have no account

Budget = tuple[RateLimitItemPerMinute, tuple[str, str]]


class TooManyReadings(Exception):
    """The message names the limit; `retry_after` is seconds until one more is free."""

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


@lru_cache(maxsize=1)
def limiter() -> MovingWindowRateLimiter:
    """Counts in Redis where there is one, for all web processes together; else in memory, for the database would be
    written to for every picture."""
    return MovingWindowRateLimiter(storage_from_string(settings.REDIS_URL or "memory://"))


def consume(principal: Principal | None, *, address: str | None, link: str | None = None) -> None:
    """Take one reading out of the minute of whoever reads. Raises TooManyReadings.

    Through a share link it is the link's at this address, whoever follows it; else the principal's. Who needs no
    account for it spends their address's too, or a new session or link would be a new budget.
    """
    for item, key in _budgets(principal, address_group(address), link):
        if not limiter().hit(item, *key):
            resets_at = limiter().get_window_stats(item, *key).reset_time
            message = f"The limit of {item.amount:,} readings (views, events, exports) a minute is reached."
            raise TooManyReadings(message, max(round(resets_at - time.time(), 1), 0.1))


def _budgets(principal: Principal | None, place: str, link: str | None) -> list[Budget]:
    most = settings.READINGS_PER_MINUTE
    item = RateLimitItemPerMinute(most, namespace="readings")
    everybody = RateLimitItemPerMinute(PEOPLE_AT_AN_ADDRESS * most, namespace="readings")
    address: Budget = (everybody, ("address", place))
    if link is not None:
        return [address, (item, (f"link {link}", place))]
    if principal is None:
        return [address]
    own: Budget = (item, ("user", str(principal.user.pk)))
    return [address, own] if principal.kind == "guest" else [own]
