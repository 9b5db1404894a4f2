"""Database work from coroutines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

from channels.db import database_sync_to_async
from django.db import connections

P = ParamSpec("P")
T = TypeVar("T")


async def in_database(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run synchronous database code in the thread that has a connection, and keep its types."""
    return cast(T, await database_sync_to_async(function)(*args, **kwargs))


def release_connection(**_: Any) -> None:
    """Close what this thread has opened; at the end of every request, and where one begins to wait for long.

    Under ASGI each request has a thread of its own, which ends with it: a connection that is kept for later use
    (for the threads of sockets and workers, which live long) would be nobody's, and never closed.
    """
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close()
