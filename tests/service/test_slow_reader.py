"""A client that stops reading costs itself trace detail, and nobody else anything."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.sync.client import connect

from tests.service.site import Site, running_site
from tests.service.socket_client import Talk, by_key, text_of

NUM_TOKENS = 4000  # about 8 MB of events: more than all buffers between the two hold
LONG_TEXT = " word" * NUM_TOKENS


@pytest.fixture(scope="module")
def fast_site() -> Iterator[Site]:
    with running_site(WEBTRACE_FAKE_TEXT=LONG_TEXT, WEBTRACE_FAKE_RATE="5000") as site:
        yield site


def memory_mb(site: Site) -> float:
    assert site.process is not None
    pages = int(Path(f"/proc/{site.process.pid}/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def test_it_loses_trace_only_and_costs_no_memory(fast_site: Site) -> None:
    key = fast_site.new_key()
    # Little room in the kernel, none in the client.
    reluctant = socket.socket()
    reluctant.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    host, port = fast_site.host.split(":")
    reluctant.connect((host, int(port)))
    headers = {"Authorization": f"Bearer {key}"}
    with (
        connect(fast_site.socket_url, sock=reluctant, additional_headers=headers, max_queue=1) as connection,
        by_key(fast_site, key) as other,
    ):
        slow = Talk(connection)
        slow.create(sampling={"max_tokens": NUM_TOKENS + 1})
        response_id = slow.next()["response_id"]
        before = memory_mb(fast_site)

        # It reads nothing now. Meanwhile another connection watches the same response to its end, undisturbed.
        other.send({"type": "response.resume", "event_id": "r", "response_id": response_id})
        seen = other.to_end()
        assert text_of(seen) == seen[-1]["text"]
        assert len(seen[-1]["text"]) > 10_000
        assert memory_mb(fast_site) - before < 60

        late = slow.to_end()
    assert text_of(late) == seen[-1]["text"]
    dropped = [event for event in late if event["type"] == "trace.dropped"]
    assert dropped
    numbers = {event["sequence_number"] for event in late if event["type"] != "trace.dropped" and event["epoch"] == 1}
    for gap in dropped:
        numbers |= set(range(gap["first"], gap["last"] + 1))
    assert numbers == set(range(1, late[-1]["sequence_number"] + 1))

    with by_key(fast_site, key) as talk:
        talk.send({"type": "response.resume", "event_id": "r", "response_id": response_id})
        whole = talk.to_end()
    assert not [event for event in whole if event["type"] == "trace.dropped"]
    assert sum(event["type"] == "trace.step" for event in whole) > 3000
