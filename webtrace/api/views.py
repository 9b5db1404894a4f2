"""GET /api/v1/responses/<id>/views/<slug>: asks the worker that holds the response, and waits for its reply."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec
from django.conf import settings
from django.core.cache import cache
from django.http import HttpRequest, HttpResponse

from inference.query import TEXTS, QueryError, parse_query
from webtrace.accounts.models import User
from webtrace.api.database import in_database
from webtrace.api.http import Problem, identifier
from webtrace.conversations import selectors
from webtrace.conversations.models import Response
from webtrace.dispatch import bell, workers
from webtrace.dispatch.views import ViewResult
from webtrace.gateway.principal import Principal

RETRY_AFTER_S = 1
FIRST_LOOK_S, LONGEST_WAIT_S = 0.004, 0.032  # between looks into the cache
MAX_PARAMETERS = 16
MAX_CHARACTERS = 200  # of one parameter's name or value
LARGEST_NUMBER = 2**63 - 1  # a seed's
_STATUS = {"invalid_value": 400, "not_found": 404, "unavailable": 503}


async def show(request: HttpRequest, principal: Principal, response_id: str, slug: str) -> HttpResponse:
    """Safetensors bytes: named float32 and int32 tensors, the structured part as JSON under metadata `view`."""
    response = await in_database(selectors.response, owner=principal.user, response_id=identifier(response_id))
    return await view_of(response, request, slug, owner=principal.user)


async def view_of(response: Response, request: HttpRequest, slug: str, owner: User | None = None) -> HttpResponse:
    """The view that the query string describes, for whoever may see this response. `owner`: who may compare it with
    others of theirs."""
    query = _query(request, slug)
    others = [await _other(owner, response, query["other"])] if "other" in query else []
    reply = HttpResponse(await fetch([response, *others], slug, query), content_type="application/octet-stream")
    reply["Cache-Control"] = "private, no-store"
    return reply


async def fetch(responses: Sequence[Response], slug: str, query: dict[str, Any]) -> bytes:
    """One view of the first response, from the cache or its worker. Raises Problem."""
    response = responses[0]
    key = _key(responses, slug, query)
    result = await _look(key)
    if result is None or result.body is None:
        worker_id = await in_database(_worker_for, response, query.get("model"))
        await cache.adelete(key)  # a problem of a moment ago is no answer to this request
        await bell.ring_view(worker_id=worker_id, request_key=key, response_id=response.pk, slug=slug, query=query)
        result = await _wait(key)
    if result.body is None:
        retry_after = RETRY_AFTER_S if result.code == "unavailable" else None
        raise Problem(_STATUS.get(result.code, 503), result.code, result.message, result.field, retry_after)
    return result.body


def _query(request: HttpRequest, slug: str) -> dict[str, Any]:
    """The query string with numbers as numbers. Limits that depend on the response are the view's own to say."""
    if len(request.GET) > MAX_PARAMETERS:
        raise Problem(400, "invalid_value", f"A view takes at most {MAX_PARAMETERS} parameters.")
    query: dict[str, Any] = {}
    for name, texts in request.GET.lists():
        if len(name) > MAX_CHARACTERS or any(len(text) > MAX_CHARACTERS for text in texts):
            raise Problem(400, "invalid_value", f"{name[:40]} is too long.", name[:40])
        if len(texts) > 1:
            raise Problem(400, "invalid_value", f"{name} is given {len(texts)} times; once is the limit.", name)
        query[name] = texts[0] if name in TEXTS else _number(name, texts[0])
    try:
        parse_query(slug, query)
    except QueryError as problem:
        raise Problem(400, "invalid_value", str(problem), problem.field) from None
    return query


async def _other(owner: User | None, response: Response, text: str) -> Response:
    """The second response of a comparison: as visible to the asker as the first, and computed by the same numbers."""
    try:
        if owner is None:
            raise Response.DoesNotExist
        found = await in_database(selectors.response, owner=owner, response_id=UUID(text))
    except (ValueError, Response.DoesNotExist):
        raise Problem(400, "invalid_value", "other: must be the id of one of your responses", "other") from None
    if found.fingerprint != response.fingerprint:
        message = f"other: was computed by {found.fingerprint or 'nothing'}, this one by {response.fingerprint}"
        raise Problem(400, "invalid_value", f"{message}; their numbers cannot be compared", "other")
    return found


def _number(name: str, text: str) -> int | float | str:
    for kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        if not -LARGEST_NUMBER <= value <= LARGEST_NUMBER:  # NaN and infinity too
            raise Problem(400, "invalid_value", f"{name} must be a number between -(2^63 - 1) and 2^63 - 1.", name)
        return value
    return text


def _key(responses: Sequence[Response], slug: str, query: dict[str, Any]) -> str:
    """Under this key the reply never changes: while a response still grows, each request has its own."""
    what = [[one.pk, one.epoch, one.fingerprint] for one in responses] + [slug, sorted(query.items())]
    if any(one.status in Response.ACTIVE for one in responses):
        what.append(secrets.token_hex(8))
    return f"view-{hashlib.sha256(msgspec.json.encode(what)).hexdigest()}"


def _worker_for(response: Response, model: str | None) -> str:
    """One that has `model` loaded; where none is named the one that computed it, else any with the same fingerprint.
    Raises Problem."""
    if model is not None:
        return _worker_with(model)
    able = workers.alive().filter(fingerprint=response.fingerprint)
    chosen = able.filter(pk=response.worker_id).first() or able.order_by("num_running").first()
    if not response.fingerprint:
        raise Problem(404, "not_found", "Nothing was computed for this response.")
    if chosen is None:
        raise Problem(
            503, "unavailable", "No worker runs the model that computed this response.", retry_after=RETRY_AFTER_S
        )
    return chosen.pk


def _worker_with(model: str) -> str:
    """The least busy worker with this model. Raises Problem."""
    alive = list(workers.alive().order_by("num_running"))
    chosen = next((worker.pk for worker in alive if worker.model == model), None)
    if chosen is None:
        names = ", ".join(sorted({worker.model for worker in alive}))
        raise Problem(400, "invalid_value", f"model: must be one that is loaded ({names}).", "model")
    return chosen


async def _look(key: str) -> ViewResult | None:
    packed = await cache.aget(key)
    return None if packed is None else ViewResult.unpack(packed)


async def _wait(key: str) -> ViewResult:
    loop = asyncio.get_running_loop()
    deadline, pause = loop.time() + settings.VIEW_TIMEOUT_S, FIRST_LOOK_S
    while loop.time() < deadline:
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_WAIT_S)
        if (result := await _look(key)) is not None:
            return result
    raise Problem(503, "busy", "The worker is busy; ask again.", retry_after=RETRY_AFTER_S)
