"""The event log: each response's numbered events, in compressed batches, fenced by the epoch.

The log is what counts. Live messages only make it quick: whatever is lost on the way is read again from here.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from django.conf import settings
from django.db import transaction
from django.db.models import Max, Q

from webtrace.conversations.models import EventBatch, Response
from webtrace.events import ResponseEvent


class Place(NamedTuple):
    """Where a reader stands: the last event it has. Places order as the events do."""

    epoch: int = 0
    number: int = 0


START = Place()
BATCH_BYTES = 256_000  # of text in a batch of a response that has ended


class Line(msgspec.Struct, frozen=True, array_like=True):
    """One event as it is stored, published and sent: its place, its type and its JSON text."""

    epoch: int
    number: int
    type: str
    text: str

    @property
    def place(self) -> Place:
        return Place(self.epoch, self.number)


class Numbering:
    """Gives one response's events of one epoch their numbers, from `place` on."""

    def __init__(self, response_id: UUID, place: Place) -> None:
        self.response_id = response_id
        self.place = place

    def line(self, kind: type[ResponseEvent], **fields: Any) -> Line:
        """The next line: an event of this kind with these fields."""
        self.place = Place(self.place.epoch, self.place.number + 1)
        return line(self.response_id, self.place, kind, **fields)


def line(response_id: UUID, place: Place, kind: type[ResponseEvent], **fields: Any) -> Line:
    """One event as a line. Non-finite numbers become null."""
    event = kind(response_id=str(response_id), epoch=place.epoch, sequence_number=place.number, **fields)
    return Line(place.epoch, place.number, str(kind.__struct_config__.tag), msgspec.json.encode(event).decode())


@dataclass(frozen=True)
class Write:
    """Consecutive lines of one response's epoch, and the columns of its row that changed with them."""

    response_id: UUID
    epoch: int
    lines: Sequence[Line]
    columns: Mapping[str, Any] = field(default_factory=dict)


class _Head(msgspec.Struct):
    type: str


def storable(text: str) -> str:
    """Text as every database takes it: PostgreSQL refuses the character NUL, so its picture stands for it."""
    return text.replace("\x00", "\u2400")


def append(writes: Iterable[Write]) -> set[UUID]:
    """Add lines to several logs in one transaction. Returns the responses whose lines were written.

    Nothing is written for a response that has ended or whose epoch is no longer the writer's: somebody else has
    taken over, and the writer must stop.
    """
    asked = {write.response_id: write for write in writes}
    with transaction.atomic():
        epochs = dict(
            Response.objects.select_for_update()
            .filter(pk__in=asked, status__in=Response.ACTIVE)
            .order_by("pk")
            .values_list("pk", "epoch")
        )
        good = [write for write in asked.values() if epochs.get(write.response_id) == write.epoch]
        EventBatch.objects.bulk_create(_batch(write) for write in good if write.lines)
        for write in good:
            if write.columns:
                Response.objects.filter(pk=write.response_id).update(**write.columns)
    return {write.response_id for write in good}


def read(response_id: UUID, after: Place = START, *, max_bytes: int = settings.MAX_MESSAGE_BYTES) -> list[Line]:
    """The lines after a place, in order, up to about `max_bytes` of text (at least one line, if there is any)."""
    later = Q(epoch__gt=after.epoch) | Q(epoch=after.epoch, last__gt=after.number)
    lines: list[Line] = []
    num_bytes = 0
    for batch in EventBatch.objects.filter(later, response=response_id).order_by("epoch", "first").iterator(4):
        for line in _lines(batch):
            if line.place <= after:
                continue
            num_bytes += len(line.text.encode())
            if lines and num_bytes > max_bytes:
                return lines
            lines.append(line)
    return lines


def last_number(response_id: UUID, epoch: int) -> int:
    """The number of the last logged event of an epoch; 0 if there is none."""
    found = EventBatch.objects.filter(response=response_id, epoch=epoch).aggregate(Max("last"))["last__max"]
    return int(found or 0)


def compact(response_id: UUID) -> int:
    """Join each epoch's batches into few. Returns the bytes stored. Call inside the transaction of the end."""
    batches: dict[int, list[EventBatch]] = {}
    for batch in EventBatch.objects.filter(response=response_id).order_by("epoch", "first"):
        batches.setdefault(batch.epoch, []).append(batch)
    stored = 0
    for epoch, parts in batches.items():
        if len(parts) == 1:
            stored += len(parts[0].payload)
            continue
        lines = [line for part in parts for line in _lines(part)]
        EventBatch.objects.filter(pk__in=[part.pk for part in parts]).delete()
        joined = [_batch(Write(response_id, epoch, some)) for some in _portions(lines)]
        EventBatch.objects.bulk_create(joined)
        stored += sum(len(batch.payload) for batch in joined)
    return stored


def _portions(lines: Sequence[Line]) -> Iterator[Sequence[Line]]:
    """Runs of lines as big as a batch should be: each is decompressed whole to read one line of it."""
    begin = num_bytes = 0
    for index, line in enumerate(lines):
        num_bytes += len(line.text)
        if num_bytes >= BATCH_BYTES:
            yield lines[begin : index + 1]
            begin, num_bytes = index + 1, 0
    if begin < len(lines):
        yield lines[begin:]


def num_bytes(response_id: UUID) -> int:
    """Bytes the log of a response takes, compressed."""
    payloads = EventBatch.objects.filter(response=response_id).values_list("payload", flat=True)
    return sum(map(len, payloads))


def _batch(write: Write) -> EventBatch:
    numbers = [line.number for line in write.lines]
    if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        raise ValueError(f"The events {numbers} of response {write.response_id} are not consecutive.")
    payload = zlib.compress("\n".join(line.text for line in write.lines).encode(), 6)
    return EventBatch(
        response_id=write.response_id, epoch=write.epoch, first=numbers[0], last=numbers[-1], payload=payload
    )


def _lines(batch: EventBatch) -> list[Line]:
    texts = zlib.decompress(batch.payload).decode().split("\n")
    return [
        Line(batch.epoch, batch.first + index, msgspec.json.decode(text, type=_Head).type, text)
        for index, text in enumerate(texts)
    ]
