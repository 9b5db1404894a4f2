"""What waits for one socket is bounded: text wins, dropped trace is named, replay waits."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from webtrace.api import outbox
from webtrace.api.outbox import Outbox
from webtrace.conversations.log import Line


def outbox_of_a_client_that_reads_nothing() -> tuple[Outbox, asyncio.Event]:
    """The outbox, and the event that makes the client read."""
    reads = asyncio.Event()

    async def writable() -> None:
        await reads.wait()

    async def send(text: str) -> None:
        pass

    return Outbox(send, writable), reads


def waiting_in(box: Outbox) -> list[dict[str, Any]]:
    return [json.loads(text) for text in box.flush()]


def line(number: int, kind: str, size: int = 1000) -> Line:
    body = {"type": kind, "response_id": "r", "epoch": 1, "sequence_number": number, "padding": "x" * size}
    return Line(1, number, kind, json.dumps(body))


def test_frames_keep_their_order() -> None:
    box, _ = outbox_of_a_client_that_reads_nothing()
    for number in range(1, 4):
        box.put_line("r", line(number, "trace.step"))
    box.put_text('{"type": "error"}')
    assert [event["type"] for event in waiting_in(box)] == ["trace.step"] * 3 + ["error"]


@given(st.binary(min_size=190, max_size=300))
@settings(max_examples=20, deadline=None)
def test_a_reader_that_lags_loses_trace_only_and_is_told_exactly_what(kinds: bytes) -> None:
    box, _ = outbox_of_a_client_that_reads_nothing()
    text = set()
    flags = [byte >> bit & 1 for byte in kinds for bit in range(8)]
    for number, is_trace in enumerate(flags, start=1):
        if is_trace:
            box.put_line("r", line(number, "trace.step"))
        else:
            text.add(number)
            box.put_line("r", line(number, "response.output_text.delta", size=10))
        assert box.num_bytes <= outbox.TEXT_ROOM
    assert not box.overflowed.is_set()
    accounted: list[int] = []
    for event in waiting_in(box):
        if event["type"] == "trace.dropped":
            dropped = range(event["first"], event["last"] + 1)
            assert not text & set(dropped)
            accounted += dropped
        else:
            accounted.append(event["sequence_number"])
    assert accounted == list(range(1, len(flags) + 1))


def test_too_much_text_overflows_instead_of_growing() -> None:
    box, _ = outbox_of_a_client_that_reads_nothing()
    for number in range(1, 5000):
        box.put_line("r", line(number, "response.output_text.delta"))
    assert box.overflowed.is_set()
    assert box.num_bytes <= outbox.TEXT_ROOM + 2000


async def test_a_replay_waits_for_the_reader() -> None:
    box, reads = outbox_of_a_client_that_reads_nothing()
    await asyncio.wait_for(box.room(), 1)
    for number in range(1, 200):
        box.put_line("r", line(number, "trace.step"))
    writer, room = asyncio.create_task(box.run()), asyncio.create_task(box.room())
    await asyncio.sleep(0)
    assert not room.done()
    reads.set()
    await asyncio.wait_for(room, 1)
    writer.cancel()
