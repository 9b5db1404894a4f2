"""A wish that a running response end early."""

from __future__ import annotations

from collections.abc import Callable

from webtrace.events import FinishReason


class Stopped(Exception):
    """Raised where a journey notices the wish before anything was generated."""


class Stop:
    """Asked for once; the first reason counts. `then` is called at that moment, or at once if it has passed."""

    def __init__(self) -> None:
        self.reason: FinishReason | None = None
        self._callbacks: list[Callable[[], None]] = []

    def ask(self, reason: FinishReason) -> None:
        if self.reason is not None:
            return
        self.reason = reason
        for callback in self._callbacks:
            callback()

    def then(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)
        if self.reason is not None:
            callback()

    def check(self) -> None:
        """Raises Stopped if the wish has been spoken."""
        if self.reason is not None:
            raise Stopped(self.reason)
