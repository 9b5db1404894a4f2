"""Bodies that do not end are refused before they are read, wherever they are sent and whichever way it is served."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from django.conf import settings

from tests.service.site import DATABASE, ROOT, START_LIMIT_S, Site, free_port, migrated_database, site_environment

ADDRESSES = ["/v1/chat/completions", "/api/v1/me", "/accounts/login/", "/", "/static/js/app.js", "/nowhere"]
HEADS = ["Content-Length: 99999999999", "Transfer-Encoding: chunked"]


@pytest.fixture(scope="module")
def plain_daphne() -> Iterator[str]:
    """Host and port of a daphne that serves the application and nothing else."""
    port = free_port()
    with site_environment() as environment:
        (ROOT / environment["WEBTRACE_DATA"] / DATABASE).write_bytes(migrated_database())
        command = [sys.executable, "-m", "daphne", "-b", "127.0.0.1", "-p", str(port), "webtrace.asgi:application"]
        with subprocess.Popen(command, cwd=ROOT, env=environment) as process:
            try:
                deadline = time.monotonic() + START_LIMIT_S
                while time.monotonic() < deadline:
                    with contextlib.suppress(ConnectionError), socket.create_connection(("127.0.0.1", port)):
                        break
                    assert process.poll() is None
                    time.sleep(0.05)
                yield f"127.0.0.1:{port}"
            finally:
                process.terminate()


def send(host: str, address: str, head: str, num_chunks: int) -> bytes:
    """The beginning of the answer to so many chunks of 100 kB."""
    name, port = host.split(":")
    with socket.create_connection((name, int(port)), timeout=60) as connection:
        connection.sendall(f"POST {address} HTTP/1.1\r\nHost: {host}\r\n{head}\r\n\r\n".encode())
        chunk = b"%x\r\n%b\r\n" % (100_000, b"x" * 100_000) if "chunked" in head else b""
        with contextlib.suppress(ConnectionError):  # it stops reading in the middle
            for _ in range(num_chunks):
                connection.sendall(chunk)
            if num_chunks < 10:
                connection.sendall(b"0\r\n\r\n" if chunk else b"")
        return connection.recv(1000)


def assert_refused(answer: bytes) -> None:
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b'"code":"too_large"' in answer
    assert f"{settings.MAX_FRAME_BYTES:,}".encode() in answer


@pytest.mark.parametrize("head", HEADS)
def test_serve_does_not_read_them(site: Site, head: str) -> None:
    assert_refused(send(site.host, "/v1/chat/completions", head, 20))


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("address", ADDRESSES)
def test_daphne_does_not_read_them(plain_daphne: str, address: str, head: str) -> None:
    assert_refused(send(plain_daphne, address, head, 20))


def test_a_body_within_the_limit_arrives(plain_daphne: str) -> None:
    assert send(plain_daphne, "/v1/chat/completions", HEADS[1], 1).startswith(b"HTTP/1.1 401 ")
