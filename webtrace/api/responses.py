"""/api/v1/responses: a list, and each one's record, events, feedback, share link and trace as a file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from webtrace.api.http import Problem, identifier, integer, read_body
from webtrace.api.markdown import to_html
from webtrace.api.trace_file import trace_file
from webtrace.conversations import log, selectors, services
from webtrace.conversations.log import Line, Place
from webtrace.conversations.models import Response, Share
from webtrace.conversations.services import NotShareable
from webtrace.dispatch.holds import breakpoints_of, held_place
from webtrace.events import END_TYPES
from webtrace.gateway.principal import Principal

MAX_COMMENT = 2000
EXCERPT = 200  # characters of a prompt and an answer in the list


class FeedbackGiven(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rating: Literal[1, -1] | None
    comment: str = ""


_feedback = msgspec.json.Decoder(FeedbackGiven)


def index(request: HttpRequest, principal: Principal | None) -> dict[str, Any]:
    """The newest that have ended with at least one token: what can be looked into and compared."""
    if principal is None:
        return {"responses": [], "more": False}
    limit = integer(request, "limit", 50, low=1, high=200)
    search = request.GET.get("search", "")[:200].replace("\x00", "")
    found = selectors.responses(owner=principal.user, search=search, limit=limit + 1)
    return {"responses": [_row(response) for response in found[:limit]], "more": len(found) > limit}


def _row(response: Response) -> dict[str, Any]:
    return {
        "id": response.pk,
        "conversation_id": response.conversation_id,
        "title": response.conversation and response.conversation.title,
        "prompt": response.request["input"][-1]["content"][:EXCERPT],
        "text": response.text[:EXCERPT],
        "status": response.status,
        "model": response.model,
        "fingerprint": response.fingerprint,
        "created_at": response.created_at,
    }


def show(request: HttpRequest, principal: Principal, response_id: str) -> dict[str, Any]:
    response = _own(principal, response_id)
    ended = response.status not in Response.ACTIVE
    return {
        "id": response.pk,
        "conversation_id": response.conversation_id,
        "message_id": response.user_message_id,
        "answer_id": response.answer_id,
        "status": response.status,
        "finish_reason": response.finish_reason or None,
        "text": response.text,
        "html": to_html(response.text) if ended else None,
        "sampling": response.sampling,
        "usage": {
            "input_tokens": response.num_prompt_tokens,
            "output_tokens": response.num_answer_tokens,
            "cached_tokens": response.num_prefix_tokens,
        },
        "error": {"code": response.error_code, "message": response.error_message} if response.error_code else None,
        "model": response.model or None,
        "fingerprint": response.numbers_fingerprint or None,
        "timings": {
            "queue_ms": response.queue_ms,
            "time_to_first_token_ms": response.time_to_first_token_ms,
            "end_to_end_ms": response.end_to_end_ms,
        },
        "created_at": response.created_at,
        "epoch": response.epoch,
        "breakpoints": breakpoints_of(response),
        "held": None if ended else held_place(response.pk),
        "feedback": feedback_of(response),
    }


def events(request: HttpRequest, principal: Principal, response_id: str) -> HttpResponse:
    """A page of the log after (`epoch`, `after`); `finished` when nothing follows it any more."""
    return events_of(_own(principal, response_id), request)


def events_of(
    response: Response, request: HttpRequest, shown: Callable[[Line], str] = lambda line: line.text
) -> HttpResponse:
    """The page of the log that the query string names, each event as `shown` gives it."""
    place = Place(integer(request, "epoch", 0), integer(request, "after", 0))
    lines = log.read(response.pk, place)
    finished = lines[-1].type in END_TYPES if lines else response.status not in Response.ACTIVE
    body = f'{{"events":[{",".join(map(shown, lines))}],"finished":{"true" if finished else "false"}}}'
    return HttpResponse(body, content_type="application/json")


def share(request: HttpRequest, principal: Principal, response_id: str) -> dict[str, Any]:
    """The share link there is, or `{"path": null}`."""
    return _link(selectors.share_of(_own(principal, response_id)))


def make_share(request: HttpRequest, principal: Principal, response_id: str) -> dict[str, Any]:
    """The share link, made if there is none."""
    response = _own(principal, response_id)
    try:
        return _link(services.share(response=response))
    except NotShareable as problem:
        raise Problem(409, "not_shareable", str(problem)) from None


def take_back_share(request: HttpRequest, principal: Principal, response_id: str) -> None:
    services.take_back_share(response=_own(principal, response_id))


def export(request: HttpRequest, principal: Principal, response_id: str) -> HttpResponse:
    """The trace as one JSON file."""
    return exported(_own(principal, response_id))


def exported(response: Response) -> HttpResponse:
    """The trace file of a finished response."""
    if response.status in Response.ACTIVE:
        raise Problem(409, "not_finished", "This answer is not finished; export it when it has ended.")
    reply = HttpResponse(msgspec.json.encode(trace_file(response)), content_type="application/json")
    reply["Content-Disposition"] = f'attachment; filename="trace-{response.pk}.json"'
    return reply


def _link(share: Share | None) -> dict[str, Any]:
    return {"path": share and reverse("pages:shared", args=[share.token])}


def give_feedback(request: HttpRequest, principal: Principal, response_id: str) -> dict[str, Any]:
    given = read_body(request, _feedback)
    if len(given.comment) > MAX_COMMENT:
        raise Problem(
            400, "too_large", f"comment has {len(given.comment)} characters; at most {MAX_COMMENT} are allowed.",
            "comment",
        )  # fmt: skip
    response = _own(principal, response_id)
    services.give_feedback(response=response, rating=given.rating, comment=given.comment)
    return {"rating": given.rating, "comment": given.comment if given.rating else ""}


def feedback_of(response: Response) -> dict[str, Any] | None:
    feedback = getattr(response, "feedback", None)
    return {"rating": feedback.rating, "comment": feedback.comment} if feedback else None


def _own(principal: Principal, response_id: str) -> Response:
    return selectors.response(owner=principal.user, response_id=identifier(response_id))
