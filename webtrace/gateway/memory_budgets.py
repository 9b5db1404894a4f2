"""Where `limits` counts what is too frequent for the database while there is no Redis: in this process's memory."""

from __future__ import annotations

import threading
import time
from collections import deque

from limits.storage import MovingWindowSupport, Storage

MOST_KEYS = 10_000  # before those that no window reaches any more are looked for


class ProcessStorage(Storage, MovingWindowSupport):
    """Moving windows only. A restart forgets them, which is right for windows of a minute."""

    STORAGE_SCHEME = ["process"]  # noqa: RUF012 - as the library declares it

    def __init__(self, uri: str | None = None, wrap_exceptions: bool = False, **options: str) -> None:
        super().__init__(uri, wrap_exceptions=wrap_exceptions, **options)
        self._uses: dict[str, deque[float]] = {}
        self._lock = threading.Lock()

    @property
    def base_exceptions(self) -> type[Exception]:
        return ValueError

    def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        """Take `amount` out of the window of the last `expiry` seconds, if that much is left. Atomic."""
        now = time.time()
        with self._lock:
            if len(self._uses) >= MOST_KEYS:
                self._uses = {one: uses for one, uses in self._uses.items() if uses and uses[-1] > now - expiry}
            uses = self._uses.setdefault(key, deque())
            _forget(uses, now - expiry)
            if len(uses) + amount > limit:
                return False
            uses.extend([now] * amount)
        return True

    def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:
        """When the oldest use within the window was (epoch seconds; now, if there is none), and how many there are."""
        now = time.time()
        with self._lock:
            uses = self._uses.get(key, deque())
            _forget(uses, now - expiry)
            return (uses[0] if uses else now), len(uses)

    def clear(self, key: str) -> None:
        with self._lock:
            self._uses.pop(key, None)

    def reset(self) -> int:
        with self._lock:
            number = len(self._uses)
            self._uses.clear()
        return number

    def check(self) -> bool:
        return True

    def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        raise NotImplementedError("Only moving windows are kept.")

    def get(self, key: str) -> int:
        raise NotImplementedError("Only moving windows are kept.")

    def get_expiry(self, key: str) -> float:
        raise NotImplementedError("Only moving windows are kept.")


def _forget(uses: deque[float], before: float) -> None:
    while uses and uses[0] <= before:
        uses.popleft()
