"""A thread with a database connection of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from django.db import close_old_connections, connections

P = ParamSpec("P")
T = TypeVar("T")


class DatabaseThread:
    """Runs database work one call after another, apart from the thread that all sockets share."""

    def __init__(self, name: str) -> None:
        self._executor = ThreadPoolExecutor(1, name)

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        def call() -> T:
            close_old_connections()
            return function(*args, **kwargs)

        return await asyncio.get_running_loop().run_in_executor(self._executor, call)

    async def close(self) -> None:
        await self.run(connections.close_all)
        self._executor.shutdown()
