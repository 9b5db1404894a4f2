"""What a database that cannot store means to whoever asked: no fault of theirs, and worth trying again."""

from __future__ import annotations

import asyncio
import logging
import math
import sqlite3
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from django.db import InterfaceError, OperationalError

from webtrace.events import ErrorBody

logger = logging.getLogger(__name__)
T = TypeVar("T")

FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 4.0

FULL = ErrorBody(
    "storage_full", "The service has no room left to store this. Somebody has to make room; try again later.",
    retry_after=30,
)  # fmt: skip
UNAVAILABLE = ErrorBody("storage_unavailable", "The database cannot be used right now; try again.", retry_after=2)

# Primary result codes that speak of the disk or of other writers, not of the statement.
_SQLITE = {
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PROTOCOL,
}  # fmt: skip
# Classes of SQLSTATE: connection, rollback for others' sake, resources, operator's intervention, system.
_POSTGRESQL = {"08", "40", "53", "57", "58"}
_POSTGRESQL_FULL = "53100"


def storage_problem(error: BaseException | None) -> ErrorBody | None:
    """What to tell about this exception; null when it is something else than trouble with storage."""
    if not isinstance(error, OperationalError | InterfaceError):
        return None
    cause = error.__cause__
    if (number := getattr(cause, "sqlite_errorcode", None)) is not None:
        primary = number & 0xFF  # the rest says more about it
        if primary == sqlite3.SQLITE_FULL:
            return FULL
        return UNAVAILABLE if primary in _SQLITE else None
    state = getattr(cause, "sqlstate", None)
    if state == _POSTGRESQL_FULL:
        return FULL
    # Without a state the connection itself was lost or never made.
    return UNAVAILABLE if state is None or state[:2] in _POSTGRESQL else None


async def until_stored(write: Callable[[], Awaitable[T]], complaint: str, *, patience_s: float = math.inf) -> T:
    """Try a write until the database takes it. Raises what is no trouble with storage, or lasts for `patience_s`."""
    wait_s, gives_up_at = FIRST_WAIT_S, time.monotonic() + patience_s
    while True:
        try:
            return await write()
        except Exception as failure:
            if storage_problem(failure) is None or time.monotonic() > gives_up_at:
                raise
            logger.error("%s (%s); it is tried again in %.1f s.", complaint, failure, wait_s)
        await asyncio.sleep(wait_s)
        wait_s = min(2 * wait_s, LONGEST_WAIT_S)
