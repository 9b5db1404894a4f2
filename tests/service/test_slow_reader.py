"""A client that stops reading costs itself trace detail, and nobody else anything."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.sync.client import connect

from tests.service.site import Site, running_site
from tests.service.socket_client import Event, Talk, by_key, text_of

NUM_TOKENS = 5100  # two answers of them are 20 MB in 10,000 events: more than all buffers between the two hold
LONG_TEXT = " word" * NUM_TOKENS


@pytest.fixture(scope="module")
def fast_site() -> Iterator[Site]:
    with running_site(WEBTRACE_FAKE_TEXT=LONG_TEXT, WEBTRACE_FAKE_RATE="5000", WEBTRACE_USER_MAX_TOKENS="6000") as site:
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
        for _ in range(2):
            slow.create(sampling={"max_tokens": NUM_TOKENS + 1})
        first = slow.until("response.created") + slow.until("response.created")
        before = memory_mb(fast_site)

        # It reads nothing now. Meanwhile another connection watches the same answers to their ends, undisturbed.
        seen = {identifier: resumed(other, identifier) for identifier in {one["response_id"] for one in first}}
        assert len(seen) == 2
        for events in seen.values():
            assert text_of(events) == events[-1]["text"]
            assert len(events[-1]["text"]) > 5 * NUM_TOKENS - 10
        assert memory_mb(fast_site) - before < 60

        late = first + slow.to_end() + slow.to_end()
    for identifier, events in seen.items():
        own = [event for event in late if event["response_id"] == identifier]
        assert text_of(own) == events[-1]["text"]
        dropped = [event for event in own if event["type"] == "trace.dropped"]
        assert dropped
        numbers = {one["sequence_number"] for one in own if one["type"] != "trace.dropped" and one["epoch"] == 1}
        for gap in dropped:
            numbers |= set(range(gap["first"], gap["last"] + 1))
        assert numbers == set(range(1, own[-1]["sequence_number"] + 1))

    with by_key(fast_site, key) as talk:
        whole = [event for identifier in seen for event in resumed(talk, identifier)]
    assert not [event for event in whole if event["type"] == "trace.dropped"]
    assert sum(event["type"] == "trace.step" for event in whole) > 2 * NUM_TOKENS
    assert len(whole) > 10_000


def resumed(talk: Talk, response_id: str) -> list[Event]:
    """All events of a response, to its end."""
    talk.send({"type": "response.resume", "event_id": "r", "response_id": response_id})
    return talk.to_end()
