"""The holds of one response: it stands at a breakpoint until somebody lets it go on, or a minute has passed."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Literal

from channels.db import database_sync_to_async
from django.conf import settings
from django.db import DatabaseError

from webtrace.breakpoints import Breakpoints, Station, after_stage
from webtrace.dispatch import holds
from webtrace.events import ResponseContinued, ResponseHeld
from webtrace.reporting.timing import Stages
from webtrace.running.recorder import Recording

logger = logging.getLogger(__name__)


class Holds:
    """Ends a hold at once where the response is to end. Time held is left out of the stages' clock."""

    def __init__(self, breakpoints: Breakpoints, recording: Recording, stages: Stages) -> None:
        self.breakpoints = breakpoints
        self._recording = recording
        self._stages = stages
        self._place: Station | None = None
        self._going: asyncio.Future[Literal["request", "timeout"] | None] | None = None
        recording.stop.then(self.wake)

    @property
    def is_held(self) -> bool:
        return self._place is not None

    def would_hold(self, station: Station) -> bool:
        return self._recording.stop.reason is None and self.breakpoints.hold_at(station)

    async def after(self, slug: str) -> None:
        """This stage has just been reported: hold here if it is a breakpoint, and raise Stopped if asked to end."""
        await self.stand(after_stage(slug))
        self._recording.stop.check()

    async def stand(self, station: Station, since: float | None = None) -> None:
        """The response stands here; if it is a breakpoint, until it may go on. `since` is when it came to a stand
        (`time.perf_counter`), if that is not now."""
        held = self.would_hold(station)
        self.breakpoints.pass_by(station)
        if held:
            await self._hold(station, time.perf_counter() if since is None else since)

    def go(self, asked: holds.Asked) -> None:
        """Somebody lets it go on from a place: nothing, unless it stands there."""
        if self._place == asked.station and self._going is not None and not self._going.done():
            if asked.breakpoints is not None:
                self.breakpoints.put(asked.breakpoints)
                self.breakpoints.pass_by(asked.station)
            self.breakpoints.go(asked.until)
            self._going.set_result("request")

    def wake(self) -> None:
        """The response or its engine is at its end: nothing is worth holding."""
        if self._going is not None and not self._going.done():
            self._going.set_result(None)

    async def _hold(self, station: Station, since: float) -> None:
        response_id, place = self._recording.response_id, {"stage": station.stage, "step": station.shown_step}
        self._place, self._going = station, asyncio.get_running_loop().create_future()
        try:
            await database_sync_to_async(holds.enter)(response_id=response_id, **place)
        except DatabaseError:  # nobody could let it go on
            logger.exception("The hold of %s could not be written; it is passed by.", response_id)
            self._place = self._going = None
            return
        try:
            limit = settings.HOLD_S
            self._recording.emit(ResponseHeld, **place, reason="breakpoint", releases_after_s=limit)
            await asyncio.wait((self._going,), timeout=limit)
            by = self._going.result() if self._going.done() else "timeout"
            await database_sync_to_async(holds.leave)(response_id=response_id)
        except DatabaseError:  # the next hold or the end writes it
            logger.exception("The end of a hold of %s could not be written.", response_id)
        finally:
            self._place = self._going = None
        held_s = time.perf_counter() - since
        self._stages.leave_out(held_s)
        if by is not None:
            self._recording.emit(ResponseContinued, **place, by=by, held_ms=held_s * 1000)
