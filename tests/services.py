"""Redis and PostgreSQL of the tests' own: private ports, temporary folders, gone at the end of the run."""

from __future__ import annotations

import glob
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import redis

START_LIMIT_S = 60


class ServicesMissing(Exception):
    """Redis or PostgreSQL is not installed or does not start. The message says which and why."""


@dataclass(frozen=True)
class Services:
    redis_port: int
    postgres_port: int

    @property
    def redis_url(self) -> str:
        return f"redis://127.0.0.1:{self.redis_port}/0"

    def new_database_url(self) -> str:
        """A fresh, empty database, so that tests do not see each other's rows."""
        name = f"webtrace_{uuid.uuid4().hex[:12]}"
        with psycopg.connect(self._postgres_url("postgres"), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        return self._postgres_url(name)

    def _postgres_url(self, database: str) -> str:
        return f"postgres://webtrace@127.0.0.1:{self.postgres_port}/{database}"


@contextmanager
def running_services() -> Iterator[Services]:
    """Both servers, answering. Raises ServicesMissing."""
    folder = Path(tempfile.mkdtemp(prefix="webtrace-services-"))
    folder.chmod(0o711)  # PostgreSQL's user must reach its folder inside
    services = Services(redis_port=_free_port(), postgres_port=_free_port())
    started: list[subprocess.Popen[bytes]] = []
    try:
        started.append(_start_redis(folder / "redis", services))
        started.append(_start_postgres(folder / "postgres", services))
        yield services
    finally:
        for process in started:
            process.send_signal(signal.SIGINT)  # PostgreSQL: end open connections, do not wait for them
        for process in started:
            process.wait(timeout=20)
        shutil.rmtree(folder, ignore_errors=True)


def _start_redis(folder: Path, services: Services) -> subprocess.Popen[bytes]:
    program = _program("redis-server")
    folder.mkdir()
    command = [
        program, "--port", str(services.redis_port), "--bind", "127.0.0.1", "--dir", str(folder),
        "--save", "", "--appendonly", "no",
    ]  # fmt: skip
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    client = redis.Redis(port=services.redis_port)
    _wait(process, client.ping, redis.ConnectionError, folder / "log")
    client.close()
    return process


def _start_postgres(folder: Path, services: Services) -> subprocess.Popen[bytes]:
    initdb, postgres = _program("initdb"), _program("postgres")
    folder.mkdir()
    # PostgreSQL refuses to run as root: Debian's package brings a user for it.
    user = "postgres" if os.geteuid() == 0 else None
    if user:
        shutil.chown(folder, user)
    data = folder / "data"
    create = [initdb, "--pgdata", str(data), "--username=webtrace", "--auth=trust", "--encoding=UTF8", "--no-sync"]
    made = subprocess.run(create, user=user, cwd=folder, capture_output=True, text=True, check=False)
    if made.returncode:
        raise ServicesMissing(f"initdb failed: {made.stderr.strip()}")
    settings = {
        "listen_addresses": "127.0.0.1", "port": services.postgres_port, "unix_socket_directories": "",
        "fsync": "off", "synchronous_commit": "off", "full_page_writes": "off",
    }  # fmt: skip
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen([postgres, "-D", str(data), *options], user=user, cwd=folder, stdout=log, stderr=log)

    def answers() -> None:
        psycopg.connect(services._postgres_url("postgres")).close()

    _wait(process, answers, psycopg.OperationalError, folder / "log")
    return process


def _program(name: str) -> str:
    """Debian keeps PostgreSQL's programs out of PATH, a folder for each version."""
    found = shutil.which(name) or next(iter(sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"), reverse=True)), None)
    if not found:
        raise ServicesMissing(f"{name} is not installed")
    return found


def _wait(process: subprocess.Popen[bytes], answers: Callable[[], object], error: type[Exception], log: Path) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    while True:
        try:
            answers()
            return
        except error as reason:
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                process.wait()
                raise ServicesMissing(
                    f"{process.args!r} does not answer ({reason}): {log.read_text()[-500:]}"
                ) from reason
        time.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
