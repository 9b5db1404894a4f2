"""Deaths in mid-answer: of the engine, of the whole service; and its orderly end. What was said stays."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.service.site import FAKE_TEXT, ROOT, Site, running_site
from tests.service.socket_client import Event, Talk, by_key, text_of


@pytest.fixture(scope="module")
def slow_site() -> Iterator[Site]:
    """A site that speaks slowly enough to be killed in mid-answer."""
    with running_site(WEBTRACE_FAKE_RATE="20") as site:
        yield site


def engine_of(site: Site) -> int:
    """Process id of the engine child."""
    assert site.process is not None
    children: list[int] = []
    for task in Path(f"/proc/{site.process.pid}/task").iterdir():
        children += map(int, (task / "children").read_text().split())
    (engine,) = [child for child in children if b"inference.child" in Path(f"/proc/{child}/cmdline").read_bytes()]
    return engine


def is_running(process_id: int) -> bool:
    try:
        return Path(f"/proc/{process_id}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def begin(talk: Talk) -> list[Event]:
    """Ask, and wait for some words."""
    talk.create()
    return talk.until("trace.step") + talk.until("trace.step") + talk.until("trace.step")


@contextmanager
def held(site: Site, key: str) -> Iterator[Talk]:
    """A response that is held after its second token."""
    with by_key(site, key) as talk:
        talk.create(breakpoints=[{"step": 1}])
        talk.until("response.held")
        yield talk


def answer(site: Site, key: str) -> str:
    with by_key(site, key) as talk:
        talk.create(sampling={"max_tokens": 8})
        return str(talk.to_end()[-1]["finish_reason"])


def read_again(site: Site, key: str, response_id: str, epoch: int = 0, after: int = 0) -> list[Event]:
    with by_key(site, key) as talk:
        talk.send(
            {"type": "response.resume", "event_id": "r", "response_id": response_id, "epoch": epoch, "after": after}
        )
        return talk.to_end()


@contextmanager
def silent_socket(site: Site, key: str) -> Iterator[None]:
    """A client that opens the WebSocket and never says or answers anything, not even a close."""
    host, port = site.host.split(":")
    lines = [
        "GET /ws/v1/ HTTP/1.1", f"Host: {site.host}", "Upgrade: websocket", "Connection: Upgrade",
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Version: 13", f"Authorization: Bearer {key}",
    ]  # fmt: skip
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        assert b"101" in connection.recv(100)
        yield


def test_a_killed_engine_fails_its_responses_and_comes_back(slow_site: Site) -> None:
    key = slow_site.new_key()
    engine = engine_of(slow_site)
    with by_key(slow_site, key) as talk, held(slow_site, key) as waiting:
        events = begin(talk)
        os.kill(engine, signal.SIGKILL)
        assert waiting.to_end()[-1]["error"]["code"] == "engine_lost", "a hold does not outlive its engine"
        events += talk.to_end()
        end = events[-1]
        assert (end["type"], end["finish_reason"]) == ("response.failed", "error")
        assert end["error"]["code"] == "engine_lost"
        assert "SIGKILL" in end["error"]["message"]
        assert 0 < len(end["text"]) < len(FAKE_TEXT)
        assert text_of(events) == end["text"]
    assert answer(slow_site, key) == "length"
    assert engine_of(slow_site) != engine


def test_an_orderly_end_interrupts_closes_sockets_and_leaves_no_engine(slow_site: Site) -> None:
    key = slow_site.new_key()
    engine = engine_of(slow_site)
    assert slow_site.process is not None
    silent = (silent_socket(slow_site, key) for _ in range(2))
    with next(silent), next(silent), by_key(slow_site, key) as talk, held(slow_site, key) as waiting:
        events = begin(talk)
        slow_site.process.terminate()
        assert waiting.to_end()[-1]["type"] == "response.interrupted"
        events += talk.to_end()
        assert events[-1]["type"] == "response.interrupted"
        assert events[-1]["text"] == text_of(events)
        assert talk.close_code() == 1012
        assert slow_site.process.wait(timeout=20) == 0
    assert not is_running(engine)
    slow_site.start()
    assert answer(slow_site, key) == "length"


def test_after_a_killed_service_its_next_start_writes_the_end(slow_site: Site) -> None:
    key = slow_site.new_key()
    engine = engine_of(slow_site)
    assert slow_site.process is not None
    with by_key(slow_site, key) as talk:
        seen = begin(talk)
        slow_site.process.kill()
        slow_site.process.wait()
    response_id = seen[0]["response_id"]
    slow_site.start()
    assert not is_running(engine), "the engine goes with its parent"
    whole = read_again(slow_site, key, response_id)
    end = whole[-1]
    assert (end["type"], end["finish_reason"], end["epoch"]) == ("response.interrupted", "worker_lost", 2)
    assert end["text"] == text_of(whole)
    assert FAKE_TEXT.startswith(end["text"])
    last = max(event["sequence_number"] for event in whole if event["epoch"] == 1)
    assert end["last_sequence_number"] == last
    # Whoever saw more than was logged hears only of the end, and cuts back to the number it names.
    after = seen[-1]["sequence_number"]
    rest = read_again(slow_site, key, response_id, epoch=1, after=after)
    kept = [event for event in seen if event["epoch"] == 0 or event["sequence_number"] <= last]
    assert kept + rest == whole
    assert answer(slow_site, key) == "length"


def test_a_taken_port_is_one_sentence_and_status_1(slow_site: Site) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [sys.executable, "manage.py", "serve", "--port", port],
            cwd=ROOT, env=slow_site.environment, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
    assert done.returncode == 1
    assert f"Port {port}" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_engine_that_cannot_start_ends_serve_with_the_reason(slow_site: Site, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"no checkpoint")
    done = subprocess.run(
        [sys.executable, "manage.py", "serve", "--port", "0"],
        cwd=ROOT, env={**slow_site.environment, "WEBTRACE_MODEL": str(broken)}, capture_output=True, text=True,
        timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    assert "broken.gguf" in done.stderr
    assert "Traceback" not in done.stderr.split("CommandError")[-1]
