"""What a web process does beside serving: writes when keys were used, and deletes rows that nobody can need again."""

from __future__ import annotations

import asyncio
import logging
import time

from django.contrib.sessions.models import Session
from django.db import connection
from django.utils import timezone

from webtrace.accounts import guests, key_use
from webtrace.database import DatabaseThread
from webtrace.gateway import budgets

logger = logging.getLogger(__name__)

INTERVAL_S = 5.0
TIDY_EVERY_S = 3600.0
MOST_PAGES = 2000  # given back to the file system
MOST_GUESTS = 10  # in one go: whoever else writes must get a turn


async def keep_house() -> None:
    """Until cancelled. In a thread of its own: what waits for the right to write must not keep readers waiting."""
    thread = DatabaseThread("housekeeping")
    tidy_at = time.monotonic()
    while True:
        await asyncio.sleep(INTERVAL_S)
        try:
            await thread.run(key_use.write)
            if time.monotonic() >= tidy_at and await thread.run(tidy):
                tidy_at = time.monotonic() + TIDY_EVERY_S
        except Exception:
            logger.exception("Housekeeping failed; it is tried again.")


def tidy() -> bool:
    """Delete sessions and limits that have run out, and guests who do not come back. False: there are more of them."""
    Session.objects.filter(expire_date__lt=timezone.now()).delete()
    budgets.remove_unused()
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute(f"PRAGMA incremental_vacuum({MOST_PAGES})")
            cursor.fetchall()  # it frees a page a row
    return guests.remove_stale(limit=MOST_GUESTS) < MOST_GUESTS
