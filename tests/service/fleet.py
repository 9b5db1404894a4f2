"""The grown-up set-up: daphne and workers as processes of their own, on Redis and PostgreSQL."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.service.browser import Browser
from tests.service.site import ROOT, START_LIMIT_S, Site, free_port, site_environment
from tests.services import Services


@dataclass
class Fleet(Site):
    """`process` is daphne."""

    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self) -> None:
        """Start daphne and wait until it answers."""
        port = free_port()
        command = [sys.executable, "-m", "daphne", "-b", "127.0.0.1", "-p", str(port), "webtrace.asgi:application"]
        self.process = subprocess.Popen(command, cwd=ROOT, env=self.environment, stderr=subprocess.DEVNULL, text=True)
        self.url = f"http://127.0.0.1:{port}"
        self._wait_for(0)

    def start_workers(self, number: int) -> list[subprocess.Popen[bytes]]:
        """More workers, started at once; returns when all are ready."""
        ready = (self.num_workers() or 0) + number
        command = [sys.executable, "manage.py", "runworker", "inference"]
        started = [
            subprocess.Popen(command, cwd=ROOT, env=self.environment, stderr=subprocess.DEVNULL) for _ in range(number)
        ]
        self.workers += started
        self._wait_for(ready)
        return started

    def num_workers(self) -> int | None:
        """How many are alive, as the site itself says; null while it does not answer."""
        try:
            return int(Browser(self.url).get("/healthz").json()["workers"])
        except (OSError, ValueError, KeyError):
            return None

    def stop(self) -> None:
        for worker in self.workers:
            worker.terminate()
        super().stop()
        for worker in self.workers:
            try:
                worker.wait(timeout=20)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()

    def _wait_for(self, num_workers: int) -> None:
        deadline = time.monotonic() + START_LIMIT_S
        while (found := self.num_workers()) is None or found < num_workers:
            assert time.monotonic() < deadline, f"{found} workers after {START_LIMIT_S} s, not {num_workers}"
            time.sleep(0.05)


@contextmanager
def running_fleet(services: Services, num_workers: int = 1, **variables: str) -> Iterator[Fleet]:
    """Daphne and workers on a database and a Redis prefix of their own."""
    shared = {"DATABASE_URL": services.new_database_url(), "REDIS_URL": services.redis_url}
    with site_environment(**shared, **variables) as environment:
        prefix = shared["DATABASE_URL"].rsplit("/", 1)[1]
        fleet = Fleet({**environment, "WEBTRACE_PREFIX": prefix, "WEBTRACE_GUESTS": "1"})
        fleet.manage("migrate", "-v0")
        try:
            fleet.start()
            fleet.start_workers(num_workers)
            yield fleet
        finally:
            fleet.stop()
