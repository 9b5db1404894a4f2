"""Where `limits` counts without Redis: in the database, so that a restart gives nobody a new hour."""

from __future__ import annotations

import time
from typing import Any

from django.db import DatabaseError, transaction
from django.db.models import Count, Min
from limits.storage import MovingWindowSupport, Storage

from webtrace.gateway.models import Budget, BudgetUse

KEPT_S = 3600.0  # the longest window there is


class DatabaseStorage(Storage, MovingWindowSupport):
    """Moving windows only: the other strategies' counters are not kept."""

    STORAGE_SCHEME = ["django"]  # noqa: RUF012 - as the library declares it

    @property
    def base_exceptions(self) -> type[Exception]:
        return DatabaseError

    def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        """Take `amount` out of the window of the last `expiry` seconds, if that much is left. Atomic."""
        now = time.time()
        with transaction.atomic():
            budget, _ = Budget.objects.select_for_update().get_or_create(pk=key)
            if budget.uses.filter(at__gt=now - expiry).count() + amount > limit:
                return False
            budget.uses.filter(at__lte=now - expiry).delete()
            BudgetUse.objects.bulk_create(BudgetUse(budget=budget, at=now) for _ in range(amount))
        return True

    def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:
        """When the oldest use within the window was (epoch seconds; now, if there is none), and how many there are."""
        now = time.time()
        found = BudgetUse.objects.filter(budget=key, at__gt=now - expiry).aggregate(Min("at"), Count("pk"))
        return found["at__min"] or now, found["pk__count"]

    def clear(self, key: str) -> None:
        Budget.objects.filter(pk=key).delete()

    def reset(self) -> int:
        return Budget.objects.all().delete()[0]

    def check(self) -> bool:
        """Whether it can be read."""
        try:
            Budget.objects.exists()
        except DatabaseError:
            return False
        return True

    def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        raise NotImplementedError("Only moving windows are kept in the database.")

    def get(self, key: str) -> Any:
        raise NotImplementedError("Only moving windows are kept in the database.")

    def get_expiry(self, key: str) -> Any:
        raise NotImplementedError("Only moving windows are kept in the database.")


def remove_unused() -> None:
    """Delete what no window reaches any more."""
    BudgetUse.objects.filter(at__lte=time.time() - KEPT_S).delete()
    with transaction.atomic():
        unused = Budget.objects.filter(uses=None)
        locked = list(unused.select_for_update(of=("self",), skip_locked=True).values_list("pk", flat=True))
        unused.filter(pk__in=locked).delete()  # looked at again: one may have been used before it was locked
