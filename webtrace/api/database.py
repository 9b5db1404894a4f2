"""Database work from coroutines."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

from channels.db import database_sync_to_async

P = ParamSpec("P")
T = TypeVar("T")


async def in_database(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run synchronous database code in the thread that has a connection, and keep its types."""
    return cast(T, await database_sync_to_async(function)(*args, **kwargs))
