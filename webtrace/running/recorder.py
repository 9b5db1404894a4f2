"""Writes down what running responses produce: at once to the hubs, a few times a second to the log."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any
from uuid import UUID

import msgspec
from django.conf import settings

from webtrace.conversations import endings, live, log
from webtrace.conversations.endings import Ending
from webtrace.database import DatabaseThread
from webtrace.dispatch import jobs
from webtrace.events import ErrorBody, ResponseEvent, TextDelta, Usage
from webtrace.running.stop import Stop
from webtrace.storage_problem import storage_problem, until_stored

logger = logging.getLogger(__name__)

END_PATIENCE_S = 300.0  # for a database that cannot be used, until a response is given up
NOT_STORED = ErrorBody("internal_error", "The end of this answer could not be stored; the failure was logged.")


class Recording:
    """One response's events of this epoch, and its released text."""

    def __init__(self, recorder: Recorder, taken: jobs.Taken, stop: Stop) -> None:
        self.response_id = taken.response.pk
        self.epoch = taken.epoch
        self.text = ""
        self._num_bytes = 0  # of the text, as JSON
        self.stop = stop
        self._traced = taken.response.trace
        self.unlogged: list[log.Line] = []
        self.token_ids: list[int] = []  # prompt, and the answer as far as it is released
        self.decoded_prefix: list[tuple[int, int]] = []  # prompt positions whose rows an earlier answer had written
        self.usage = Usage()  # of what was computed
        self.stored: dict[str, Any] = {}
        self._recorder = recorder
        self._numbering = log.Numbering(self.response_id, taken.lines[-1].place)

    @property
    def place(self) -> log.Place:
        return self._numbering.place

    def columns(self) -> dict[str, Any]:
        """What the response's row says while it runs, so that an interruption loses none of it."""
        return {
            "text": log.storable(self.text),
            "token_ids": list(self.token_ids),
            "num_prompt_tokens": self.usage.input_tokens,
            "num_answer_tokens": self.usage.output_tokens,
            "num_prefix_tokens": self.usage.cached_tokens,
            "decoded_prefix": self.decoded_prefix,
        }

    def emit(self, kind: type[ResponseEvent], **fields: Any) -> None:
        """Record one event."""
        line = self._numbering.line(kind, **fields)
        self.unlogged.append(line)
        self._recorder.publish(self.response_id, [line])

    def trace(self, kind: type[ResponseEvent], **fields: Any) -> None:
        """Record a trace event, if this response is traced."""
        if self._traced:
            self.emit(kind, **fields)

    def release(self, delta: str) -> None:
        """Record text that may now be shown. Where it outgrows what a message can hold, the answer ends."""
        if delta:
            self.text += delta
            self._num_bytes += len(msgspec.json.encode(delta)) - 2
            self.emit(TextDelta, delta=delta)
            if self._num_bytes > settings.MAX_ANSWER_BYTES:
                self.stop.ask("length")


class Recorder:
    """The flusher of all recordings of one worker.

    The log is written by a thread of its own: a slow database delays the log, never the stream. Lines leave
    `unlogged` only once they are written, so a failed write is tried again.
    """

    def __init__(self) -> None:
        self._recordings: dict[UUID, Recording] = {}
        self._live: list[tuple[UUID, list[log.Line]]] = []
        self._something_live = asyncio.Event()
        self._writing = asyncio.Lock()
        self._database = DatabaseThread("log")

    def open(self, taken: jobs.Taken, stop: Stop) -> Recording:
        """Begin to record. If the log turns out to be somebody else's by now, `stop` is asked for `worker_lost`."""
        recording = Recording(self, taken, stop)
        self._recordings[recording.response_id] = recording
        self.publish(recording.response_id, list(taken.lines))
        return recording

    def recording(self, response_id: UUID) -> Recording | None:
        """The recording of a response that runs here."""
        return self._recordings.get(response_id)

    def publish(self, response_id: UUID, lines: list[log.Line]) -> None:
        """Send lines with the next live message."""
        if self._live and self._live[-1][0] == response_id:
            self._live[-1][1].extend(lines)
        else:
            self._live.append((response_id, list(lines)))
        self._something_live.set()

    async def run(self) -> None:
        """Flush until cancelled."""
        await asyncio.gather(self._publish_forever(), self._log_forever())

    async def write_log(self) -> None:
        """One transaction with everything not yet logged. Responses that are no longer ours are stopped."""
        async with self._writing:
            pending = [one for one in self._recordings.values() if one.unlogged]
            states = [one.columns() for one in pending]
            writes = [
                log.Write(one.response_id, one.epoch, list(one.unlogged), _changed(one.stored, state))
                for one, state in zip(pending, states, strict=True)
            ]
            if not writes:
                return
            written = await self._database.run(log.append, writes)
            for recording, write, state in zip(pending, writes, states, strict=True):
                del recording.unlogged[: len(write.lines)]
                recording.stored = state
                if recording.response_id not in written:
                    self._lose(recording)

    async def finish(self, recording: Recording, ending: Ending) -> bool:
        """Write the end. It is published only once it is stored, so whoever hears of it can read it.

        False: the response was no longer ours, or it has no end yet. Trouble with storage is waited out for
        END_PATIENCE_S. An end that fails for any other reason is written as a plain failure instead. Where that fails
        too, the worker finds the response later among those it does not compute, and interrupts it.
        """
        for end in (ending, Ending("error", recording.text, recording.usage, NOT_STORED)):
            write = partial(self._end, recording, end)
            complaint = f"The end of {recording.response_id} could not be written"
            try:
                return await until_stored(write, complaint, patience_s=END_PATIENCE_S)
            except Exception as failure:
                logger.exception("%s as %s; it is not tried again.", complaint, end.finish_reason)
                if storage_problem(failure) is not None:
                    break
        self._recordings.pop(recording.response_id, None)
        return False

    async def _end(self, recording: Recording, ending: Ending) -> bool:
        response_id, epoch = recording.response_id, recording.epoch
        place = log.Place(epoch, recording.place.number + 1)
        end = endings.end_line(response_id=response_id, place=place, ending=ending)
        async with self._writing:
            lines = [*recording.unlogged, end]
            ours = await self._database.run(jobs.end, response_id=response_id, epoch=epoch, lines=lines, ending=ending)
            self._recordings.pop(response_id, None)
        if ours:
            self.publish(response_id, [end])
        return ours

    async def interrupt(self, response_id: UUID, worker_id: str) -> None:
        """End a response that this worker gives up, exactly as if it had been lost."""
        if response_id in self._recordings:
            await self.write_log()
        ended = await self._database.run(jobs.interrupt, response_id=response_id, worker_id=worker_id)
        self._recordings.pop(response_id, None)
        if ended:
            self.publish(response_id, list(ended.lines))

    async def close(self) -> None:
        """Send what is left and let the thread go."""
        await self._publish()
        await self._database.close()

    def _lose(self, recording: Recording) -> None:
        logger.warning("Response %s was taken over; it stops here.", recording.response_id)
        self._recordings.pop(recording.response_id, None)
        recording.stop.ask("worker_lost")

    async def _publish_forever(self) -> None:
        while True:
            await self._something_live.wait()
            await self._publish()
            await asyncio.sleep(settings.FLUSH_LIVE_MS / 1000)

    async def _publish(self) -> None:
        batches, self._live = self._live, []
        self._something_live.clear()
        await live.publish(batches)

    async def _log_forever(self) -> None:
        while True:
            await asyncio.sleep(settings.FLUSH_LOG_MS / 1000)
            try:
                await until_stored(self.write_log, "The log could not be written")
            except Exception:
                logger.exception("The log could not be written; its lines are kept and tried again.")


def _changed(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in now.items() if before.get(name) != value}
