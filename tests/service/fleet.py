"""The grown-up set-up for tests: daphne, workers, Redis and PostgreSQL, each a process of its own."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.service.site import ROOT, START_LIMIT_S, Site
from tests.services import Services

FLEET_TEXT = " ".join(f"word{number}" for number in range(120)) + "."


@dataclass
class Fleet(Site):
    """A site whose workers are processes of their own."""

    workers: dict[str, subprocess.Popen[str]] = field(default_factory=dict)  # by the worker's id

    def start(self) -> None:
        """Start the web process and wait until it answers."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.process = self._run("-m", "daphne", "-b", "127.0.0.1", "-p", str(port), "webtrace.asgi:application")
        self._wait_for("Listening on TCP address", 1)

    def add_worker(self) -> None:
        """Start a worker and wait until it is ready."""
        process = self._run("manage.py", "runworker", "inference")
        self._wait_for("is ready", len(self.workers) + 1)
        names = re.findall(r"Worker (\w+) is ready", "".join(self.output))
        self.workers[names[-1]] = process

    def stop(self) -> None:
        for worker in self.workers.values():
            worker.terminate()
        super().stop()
        for worker in self.workers.values():
            worker.wait(timeout=20)

    def _run(self, *arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-u", *arguments],
            cwd=ROOT, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        threading.Thread(target=self._read, args=(process,), daemon=True).start()
        return process

    def _wait_for(self, words: str, times: int) -> None:
        deadline = time.monotonic() + START_LIMIT_S
        while sum(words in line for line in self.output) < times:
            assert time.monotonic() < deadline, "".join(self.output)
            time.sleep(0.05)


@contextmanager
def running_fleet(services: Services, num_workers: int = 2) -> Iterator[Fleet]:
    """Web process and workers on a database of their own."""
    models = Path(os.environ.get("WEBTRACE_DATA", ROOT / "data")).resolve() / "models"
    with tempfile.TemporaryDirectory(prefix="webtrace-fleet-", ignore_cleanup_errors=True) as folder:
        (Path(folder) / "models").symlink_to(models)
        environment = {
            **os.environ,
            "WEBTRACE_DATA": folder,
            "DATABASE_URL": services.new_database_url(),
            "REDIS_URL": services.redis_url,
            "WEBTRACE_PREFIX": uuid.uuid4().hex[:8],
            "WEBTRACE_ENGINE": "fake",
            "WEBTRACE_FAKE_TEXT": FLEET_TEXT,
            "WEBTRACE_FAKE_RATE": "150",
            "OMP_NUM_THREADS": "1",
        }
        fleet = Fleet(environment)
        fleet.manage("migrate", "-v0")
        try:
            fleet.start()
            for _ in range(num_workers):
                fleet.add_worker()
            yield fleet
        finally:
            fleet.stop()
