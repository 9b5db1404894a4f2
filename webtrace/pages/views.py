"""The page itself, the models it shows, and the answer to "is the service up?"."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec
from django.conf import settings
from django.db import DatabaseError, connection
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_safe

from inference.messages import Sampling
from inference.settings import EngineSettings
from webtrace.accounts.guests import welcome
from webtrace.api.http import Problem, identify
from webtrace.api.me import me
from webtrace.conversations import selectors
from webtrace.conversations.models import Response
from webtrace.dispatch import workers
from webtrace.gateway import address
from webtrace.gateway.principal import Principal
from webtrace.lessons.contrasts import CONTRASTS
from webtrace.lessons.misconceptions import MISCONCEPTIONS
from webtrace.lessons.terms import TERMS
from webtrace.lessons.worked_numbers import WORKED_NUMBERS
from webtrace.stages import STAGES


@require_safe
@never_cache
@ensure_csrf_cookie
def app(request: HttpRequest, conversation_id: UUID | None = None) -> HttpResponse:
    """The application. Whether the conversation exists, and for whom, is the API's to say when the page asks."""
    page = _page(
        request,
        me=me(_principal(request), address.of_request(request)),
        models=_models(),
        num_models=len(EngineSettings.all_from_environment()),
        conversation_id=conversation_id,
        sampling_defaults=Sampling(),
    )
    welcome(request, page)
    return page


@require_safe
@never_cache
def shared(request: HttpRequest, token: str) -> HttpResponse:
    """One trace to read, for whoever has its link; 404 for a link that leads nowhere (any more)."""
    try:
        selectors.shared_response(token=token)
    except Response.DoesNotExist:
        raise Http404 from None
    page = _page(request, reader={"token": token})
    page["X-Robots-Tag"] = "noindex"  # the link is for those it was given to
    return page


@require_safe
def opened(request: HttpRequest) -> HttpResponse:
    """A page that opens a trace file, and then needs nobody any more."""
    return _page(request, reader={"token": None})


CATALOGUES = {
    "stages": STAGES,
    "terms": TERMS,
    "misconceptions": MISCONCEPTIONS,
    "contrasts": CONTRASTS,
    "worked_numbers": WORKED_NUMBERS,
}


def _page(request: HttpRequest, **data: Any) -> HttpResponse:
    page_data = msgspec.to_builtins({**CATALOGUES, "reader": None, **data}, str_keys=True)
    return render(request, "pages/app.html", {"page_data": page_data})


@require_safe
@never_cache
def models(request: HttpRequest) -> JsonResponse:
    """The models that can be asked for, for a page that was opened before a worker was ready."""
    return JsonResponse({"models": _models()})


@require_safe
@never_cache
def healthz(request: HttpRequest) -> JsonResponse:
    """200 while the database answers; the number of living workers beside it. 503 otherwise."""
    try:
        connection.ensure_connection()
        num_workers = workers.alive().count()
    except DatabaseError:
        return JsonResponse({"status": "the database does not answer"}, status=503)
    return JsonResponse({"status": "ok", "workers": num_workers, "region": settings.REGION})


def _principal(request: HttpRequest) -> Principal | None:
    try:
        return identify(request, visitors=True)
    except Problem:
        return None  # a key that is no longer valid: the page still opens, for nobody


def _models() -> list[dict[str, Any]]:
    """Dimensions and name of every living worker's model, the preferred one first; of two workers the newer's."""
    by_name: dict[str, dict[str, Any]] = {}
    for worker in workers.by_preference():
        by_name.setdefault(worker.model, workers.description(worker))
    return list(by_name.values())
