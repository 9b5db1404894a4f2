"""The event log and its reader: whatever is lost, doubled, late or void, a reader ends where a fresh read does."""

from __future__ import annotations

import json
import zlib
from typing import Any

import msgspec
import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.service.cast import make_response
from tests.service.work import deltas, make_waiting, make_worker, numbering, take
from webtrace.accounts.models import User
from webtrace.conversations import live, log
from webtrace.conversations.endings import Ending, end_line
from webtrace.conversations.log import START, Line, Place, Write
from webtrace.conversations.models import EventBatch, Response
from webtrace.conversations.reader import Reader
from webtrace.dispatch import jobs

pytestmark = pytest.mark.django_db


def everything(response: Response, after: Place = START) -> list[Line]:
    """The whole log, page by page."""
    lines: list[Line] = []
    while page := log.read(response.pk, lines[-1].place if lines else after, max_bytes=400):
        lines += page
    return lines


def state(lines: list[Line]) -> tuple[list[Place], str]:
    """What a client holds after these lines: an interruption takes back what is past its last number."""
    kept: list[Line] = []
    for line in lines:
        event = json.loads(line.text)
        if event["type"] == "response.interrupted":
            last = Place(line.epoch - 1, event["last_sequence_number"])
            kept = [one for one in kept if one.place <= last]
        kept.append(line)
    text = "".join(json.loads(one.text).get("delta", "") for one in kept)
    return [one.place for one in kept], text


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("emit"), st.integers(1, 4)),
        st.tuples(st.just("flush"), st.just(0)),
        st.tuples(st.just("deliver"), st.integers(0, 30)),
        st.tuples(st.just("read"), st.just(0)),
    ),
    max_size=25,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(actions=ACTIONS, lost=st.booleans())
def test_any_interleaving_ends_like_a_fresh_read(owner: User, actions: list[tuple[str, int]], lost: bool) -> None:
    response, worker = make_waiting(owner), make_worker()
    taken = take(response, worker)
    numbers = numbering(response.pk, 1, 1)
    emitted, unlogged = list(taken.lines), list[Line]()
    reader, seen = Reader(), list[Line]()
    for action, value in actions:
        if action == "emit":
            fresh = deltas(numbers, *(f"{len(emitted) + i} " for i in range(value)))
            emitted += fresh
            unlogged += fresh
        elif action == "flush" and unlogged:
            assert log.append([Write(response.pk, 1, unlogged)]) == {response.pk}
            unlogged = []
        elif action == "deliver" and value < len(emitted):
            seen += reader.offer(emitted[value : value + 3])
        elif action == "read":
            seen += reader.catch_up(log.read(response.pk, reader.place, max_bytes=300))
    if lost:
        assert jobs.interrupt(response_id=response.pk, worker_id=worker.pk)
    else:
        ending = Ending("stop", "".join(json.loads(one.text)["delta"] for one in emitted[1:]))
        end = end_line(response_id=response.pk, place=Place(1, numbers.place.number + 1), ending=ending)
        assert jobs.end(response_id=response.pk, epoch=1, lines=[*unlogged, end], ending=ending)
    seen += reader.offer(emitted)  # whatever was still on its way
    while page := log.read(response.pk, reader.place, max_bytes=300):
        seen += reader.catch_up(page)
    assert [one.place for one in seen] == sorted({one.place for one in seen}), "each once and in order"
    assert state(seen) == state(everything(response))
    assert reader.ended
    assert not reader.behind
    response.refresh_from_db()
    assert json.loads(seen[-1].text)["text"] == response.text


def test_a_reader_asks_for_the_log_where_something_is_missing(owner: User) -> None:
    response = make_waiting(owner)
    lines = deltas(numbering(response.pk, 1, 1), "a", "b", "c")
    reader = Reader(Place(1, 1))
    assert reader.offer([lines[0]]) == [lines[0]]
    assert reader.offer([lines[2]]) == []
    assert reader.behind
    assert reader.catch_up([lines[1]]) == lines[1:]
    assert not reader.behind


def test_what_a_reader_has_already_is_nothing_new(owner: User) -> None:
    response = make_waiting(owner)
    lines = deltas(numbering(response.pk, 1, 0), "a", "b", "c")
    reader = Reader(Place(1, 2))
    assert reader.offer(lines[:2]) == []
    assert not reader.behind
    assert reader.offer(lines) == [lines[2]]


def test_a_reader_enters_an_epoch_through_the_log_alone(owner: User) -> None:
    """Live, the first event of an epoch could hide that the one before has more."""
    response = make_waiting(owner)
    worker = make_worker()
    reader = Reader()
    reader.catch_up(everything(response))
    taken = take(response, worker)
    assert reader.offer(taken.lines) == []
    assert reader.behind
    assert [line.place for line in reader.catch_up(log.read(response.pk, reader.place))] == [Place(1, 1)]


def test_writes_of_an_older_epoch_or_after_the_end_count_for_nothing(owner: User) -> None:
    response, other, worker = make_waiting(owner), make_waiting(owner), make_worker()
    take(response, worker)
    take(other, worker)
    assert jobs.interrupt(response_id=response.pk, worker_id=worker.pk)
    early = Write(other.pk, 0, deltas(numbering(other.pk, 0, 1), "early"), {"text": "early"})
    assert log.append([early]) == set(), "an epoch is over once the next has begun"
    late = Write(response.pk, 1, deltas(numbering(response.pk, 1, 1), "late"), {"text": "late"})
    fine = Write(other.pk, 1, deltas(numbering(other.pk, 1, 1), "fine"), {"text": "fine"})
    assert log.append([late, fine]) == {other.pk}
    response.refresh_from_db()
    other.refresh_from_db()
    assert (response.text, other.text) == ("", "fine")
    ending = Ending("stop", "late")
    assert not jobs.end(response_id=response.pk, epoch=1, lines=late.lines, ending=ending)
    assert not jobs.end(response_id=response.pk, epoch=2, lines=late.lines, ending=ending), "it has ended"
    response.refresh_from_db()
    assert response.status == Response.Status.INTERRUPTED


def test_the_end_compacts_the_log_to_a_record_an_epoch(owner: User) -> None:
    response, worker = make_waiting(owner), make_worker()
    take(response, worker)
    numbers = numbering(response.pk, 1, 1)
    for word in ("one ", "two ", "three"):
        log.append([Write(response.pk, 1, deltas(numbers, word))])
    before = everything(response)
    ending = Ending("stop", "one two three")
    end = end_line(response_id=response.pk, place=Place(1, 5), ending=ending)
    assert jobs.end(response_id=response.pk, epoch=1, lines=[end], ending=ending)
    assert everything(response) == [*before, end]
    batches = EventBatch.objects.filter(response=response)
    assert sorted(batches.values_list("epoch", "first", "last")) == [(0, 1, 1), (1, 1, 5)]
    assert all(zlib.decompress(batch.payload) for batch in batches)


def test_a_long_log_is_read_a_part_at_a_time(owner: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "BATCH_BYTES", 1000)
    response, worker = make_waiting(owner), make_worker()
    take(response, worker)
    log.append([Write(response.pk, 1, deltas(numbering(response.pk, 1, 1), *(f"word {n} " for n in range(60))))])
    before = everything(response)
    with transaction.atomic():
        assert log.compact(response.pk) == log.num_bytes(response.pk)
    assert everything(response) == before
    batches = EventBatch.objects.filter(response=response, epoch=1)
    assert batches.count() > 5
    texts = [zlib.decompress(batch.payload) for batch in batches]
    assert max(map(len, texts)) < 1200
    opened: list[EventBatch] = []
    read_lines = log._lines

    def open_batch(batch: EventBatch) -> list[Line]:
        opened.append(batch)
        return read_lines(batch)

    monkeypatch.setattr(log, "_lines", open_batch)
    page = log.read(response.pk, before[30].place, max_bytes=500)
    assert page == before[31 : 31 + len(page)]
    assert len(page) > 1
    assert len(opened) <= 2


def test_numbers_with_a_hole_are_refused(owner: User) -> None:
    response = make_waiting(owner)
    lines = deltas(numbering(response.pk, 0, 1), "a", "b", "c")
    with pytest.raises(ValueError, match="not consecutive"):
        log.append([Write(response.pk, 0, [lines[0], lines[2]])])


def test_a_page_is_bounded_and_never_empty(owner: User) -> None:
    response = make_response(owner, "x" * 5000)
    assert len(log.read(response.pk, max_bytes=10)) == 1
    assert [line.place.number for line in everything(response)] == [1, 2, 3]


def test_live_messages_are_small_and_plain(owner: User) -> None:
    """Every channel layer must carry them: plain values that survive msgpack, below the size limit."""
    response = make_waiting(owner)
    texts = ["é" * 30_000 for _ in range(20)]
    lines = deltas(numbering(response.pk, 1, 0), *texts, "y" * 300_000, "end")
    made = live.messages([(response.pk, lines)])
    assert len(made) > 4
    found: list[Any] = []
    for message in made:
        packed = msgspec.msgpack.encode(message)
        assert len(packed) <= 256_000
        for response_id, rows in msgspec.msgpack.decode(packed)["batches"]:
            assert response_id == str(response.pk)
            found += live.lines_of(rows)
    assert found == [*lines[:20], lines[21]], "all but the one too big for any message, which the log has"


def test_nul_is_stored_as_its_picture(owner: User) -> None:
    """PostgreSQL takes no NUL in text, and a model may write one."""
    response, worker = make_waiting(owner), make_worker()
    take(response, worker)
    log.append([Write(response.pk, 1, deltas(numbering(response.pk, 1, 1), "a\0b"), {"text": log.storable("a\0b")})])
    response.refresh_from_db()
    assert response.text == "a␀b"
