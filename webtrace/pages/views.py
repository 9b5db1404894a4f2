"""The page itself, the model it shows, and the answer to "is the service up?"."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec
from django.conf import settings
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_safe

from inference.messages import Sampling
from webtrace.accounts.guests import ensure_session
from webtrace.api.http import Problem, identify
from webtrace.api.me import me
from webtrace.dispatch import workers
from webtrace.gateway import address
from webtrace.gateway.principal import Principal
from webtrace.stages import STAGES


@require_safe
@never_cache
@ensure_csrf_cookie
def app(request: HttpRequest, conversation_id: UUID | None = None) -> HttpResponse:
    """The application. Whether the conversation exists, and for whom, is the API's to say when the page asks."""
    ensure_session(request)
    data = {
        "me": me(_principal(request), address.of_request(request)),
        "stages": STAGES,
        "model": _model(),
        "conversation_id": conversation_id,
        "sampling_defaults": Sampling(),
    }
    return render(request, "pages/app.html", {"page_data": msgspec.to_builtins(data, str_keys=True)})


@require_safe
@never_cache
def model(request: HttpRequest) -> JsonResponse:
    """The model that would answer, for a page that was opened before a worker was ready."""
    return JsonResponse({"model": _model()})


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


def _model() -> dict[str, Any] | None:
    """Dimensions and name of the newest living worker's model."""
    worker = workers.alive().order_by("-started_at").first()
    if worker is None:
        return None
    return {
        **worker.model_info,
        "kernel": worker.kernel,
        "device": worker.device,
        "fingerprint": worker.fingerprint,
    }
