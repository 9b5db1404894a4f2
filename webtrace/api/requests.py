"""What a client asks for over one socket: responses made, cancelled, watched again, let go on; a head watched."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from inference.query import QueryError
from webtrace import events, journey
from webtrace.api.attention import WatchedHead
from webtrace.api.credential import Credential
from webtrace.api.database import in_database
from webtrace.api.frames import UnreadableFrame
from webtrace.api.watches import MAX_WATCHES, Watches
from webtrace.breakpoints import LARGEST_STEP, parse, problem_with
from webtrace.client_events import (
    ClientMessage,
    ResponseCancel,
    ResponseContinue,
    ResponseCreate,
    ResponseResume,
    TraceWatch,
)
from webtrace.conversations import selectors
from webtrace.conversations.log import Place
from webtrace.conversations.models import Response
from webtrace.dispatch import holds
from webtrace.dispatch.cancel import cancel_response
from webtrace.gateway.incoming import Incoming
from webtrace.reporting.service_reports import Header


class Requests:
    """Carries out the messages of one socket, in the name of its credential."""

    def __init__(
        self,
        credential: Credential,
        watches: Watches,
        head: WatchedHead,
        tell: Callable[[events.SocketError], None],
        *,
        headers: tuple[Header, ...],
        encrypted: bool,
    ) -> None:
        self._credential, self._watches, self._head, self._tell = credential, watches, head, tell
        self._headers, self._encrypted = headers, encrypted

    async def carry_out(self, message: ClientMessage, frame: str) -> None:
        """What this message, read from `frame`, asks for. Raises UnreadableFrame, Unauthenticated."""
        match message:
            case ResponseCreate():
                await self._create(message, frame)
            case ResponseCancel():
                response = await self._response(message)
                await cancel_response(response.pk)
            case ResponseResume():
                response = await self._response(message)
                await self._resume(response, message)
            case ResponseContinue():
                await self._continue(message)
            case TraceWatch():
                response = await self._response(message)
                try:
                    self._head.watch(response, message)
                except QueryError as problem:
                    raise UnreadableFrame("invalid_value", str(problem), problem.field, message.event_id) from None

    async def _create(self, message: ResponseCreate, frame: str) -> None:
        principal = await self._credential.certain()
        if len(self._watches) >= MAX_WATCHES:
            raise UnreadableFrame(
                "too_many_responses", f"This connection already watches {MAX_WATCHES} responses.", None,
                message.event_id,
            )  # fmt: skip
        incoming = Incoming(
            message=message,
            transport="websocket",
            frame=frame,
            headers=self._headers,
            encrypted=self._encrypted,
        )
        outcome = await journey.admit(incoming, principal)
        if outcome.response_id is not None:
            self._watches.begin(outcome.response_id, Place())
        elif isinstance(outcome, journey.Refused):
            error = outcome.error
            self._tell(events.SocketError(error.code, error.message, error.field, message.event_id, error.retry_after))

    async def _continue(self, message: ResponseContinue) -> None:
        if message.until not in ("next", "end"):
            try:
                parse(message.until)
            except ValueError as problem:
                raise UnreadableFrame("invalid_value", f"until: {problem}.", "until", message.event_id) from None
        if wrong := problem_with(message.breakpoints or (), LARGEST_STEP):
            raise UnreadableFrame("invalid_value", wrong.message, wrong.field, message.event_id)
        response = await self._response(message)
        try:
            await holds.continue_response(response.pk, message.until, message.breakpoints)
        except holds.NotHeld as problem:
            raise UnreadableFrame("not_held", str(problem), "response_id", message.event_id) from None
        except holds.Passed as problem:
            raise UnreadableFrame("invalid_value", f"until: {problem}", "until", message.event_id) from None

    async def _response(self, message: ResponseCancel | ResponseResume | ResponseContinue | TraceWatch) -> Response:
        """The principal's response this message names."""
        principal = await self._credential.certain()
        try:
            identifier = UUID(message.response_id)
            return await in_database(selectors.response, owner=principal.user, response_id=identifier)
        except (ValueError, Response.DoesNotExist):
            raise UnreadableFrame(
                "not_found", "There is no such response of yours.", "response_id", message.event_id
            ) from None

    async def _resume(self, response: Response, message: ResponseResume) -> None:
        for field in ("epoch", "after"):
            if not 0 <= getattr(message, field) < 2**31:
                raise UnreadableFrame(
                    "invalid_value", f"{field} must be from 0 to {2**31 - 1}.", field, message.event_id
                )
        self._watches.begin(response.pk, Place(message.epoch, message.after))
