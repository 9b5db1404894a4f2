"""A running `manage.py serve` of the tests' own: free port, fresh database, fake engine."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from tests.service.browser import Browser

ROOT = Path(__file__).resolve().parents[2]
START_LIMIT_S = 100
DATABASE = "webtrace.sqlite3"
FAKE_TEXT = " ".join(f"word{number}" for number in range(40)) + "."


@dataclass
class Site:
    """Where it runs, and what the tests do around it from outside."""

    environment: Mapping[str, str]
    process: subprocess.Popen[str] | None = None
    url: str = ""
    output: list[str] = field(default_factory=list)

    @property
    def host(self) -> str:
        return self.url.removeprefix("http://")

    @property
    def socket_url(self) -> str:
        return f"ws://{self.host}/ws/v1/"

    def manage(self, *arguments: str) -> str:
        """Run a management command against the site's database."""
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments], cwd=ROOT, env=self.environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def python(self, code: str) -> Any:
        """Run code with the site's models; it must set `result`, which comes back through JSON."""
        script = f"import json\n{code}\nprint(json.dumps(result))"
        return json.loads(self.manage("shell", "--no-imports", "-c", script).splitlines()[-1])

    def new_key(self) -> str:
        """The API key of a new user."""
        name = f"user-{uuid.uuid4().hex[:12]}"
        code = "from webtrace.accounts.models import ApiKey, User\n"
        return str(self.python(f"{code}result = ApiKey.make(user=User.objects.create_user('{name}'))[1]"))

    def browser(self, **headers: str) -> Browser:
        """Somebody who has opened the page: a session and a token, as a browser would have them."""
        browser = Browser(self.url, headers)
        assert browser.get("/").status == 200
        return browser

    def start(self) -> None:
        """Start serving and wait until the worker is ready. Raises AssertionError with the output."""
        self.process = subprocess.Popen(
            [sys.executable, "manage.py", "serve", "--port", "0"],
            cwd=ROOT,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        threading.Thread(target=self._read, args=(self.process,), daemon=True).start()
        deadline = time.monotonic() + START_LIMIT_S
        while not self._ready():
            assert self.process.poll() is None, "".join(self.output)
            assert time.monotonic() < deadline, "".join(self.output)
            time.sleep(0.05)

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self.output.append(line)

    def _ready(self) -> bool:
        found = re.findall(r"Listening on (http://\S+?)/?\n", "".join(self.output))
        if not found:
            return False
        self.url = found[-1]
        try:
            return bool(Browser(self.url).get("/healthz").json().get("workers"))
        except (OSError, ValueError):
            return False


@contextmanager
def site_environment(**variables: str) -> Iterator[dict[str, str]]:
    """An environment with the checkpoints of WEBTRACE_DATA and everything else of its own."""
    models = Path(os.environ.get("WEBTRACE_DATA", ROOT / "data")).resolve() / "models"
    with tempfile.TemporaryDirectory(prefix="webtrace-site-", ignore_cleanup_errors=True) as folder:
        (Path(folder) / "models").symlink_to(models)
        yield {
            **os.environ,
            "WEBTRACE_DATA": folder,
            "WEBTRACE_ENGINE": "fake",
            "WEBTRACE_FAKE_TEXT": FAKE_TEXT,
            "WEBTRACE_FAKE_RATE": "200",
            "WEBTRACE_GUEST_ANSWERS_PER_HOUR": "1000",
            "OMP_NUM_THREADS": "1",
            **variables,
        }


@lru_cache(maxsize=1)
def migrated_database() -> bytes:
    """A fresh database with all its tables. Migrating takes seconds, so it is done once for the whole run."""
    with site_environment() as environment:
        Site(environment).manage("migrate", "-v0")
        return (Path(environment["WEBTRACE_DATA"]) / DATABASE).read_bytes()


@contextmanager
def running_site(**variables: str) -> Iterator[Site]:
    """A site that serves until the end of the block."""
    with site_environment(**variables) as environment:
        site = Site(environment)
        (Path(environment["WEBTRACE_DATA"]) / DATABASE).write_bytes(migrated_database())
        try:
            site.start()
            yield site
        finally:
            site.stop()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
