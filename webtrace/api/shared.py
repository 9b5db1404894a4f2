"""/api/v1/shared/<token>: one trace, read-only, for whoever has its link. Who they are does not matter."""

from __future__ import annotations

from typing import Any

import msgspec
from django.http import HttpRequest, HttpResponse

from webtrace.api import responses, views
from webtrace.api.database import in_database
from webtrace.api.http import Problem
from webtrace.api.markdown import to_html
from webtrace.api.trace_file import public_text, traced_response
from webtrace.conversations import selectors
from webtrace.conversations.models import Response
from webtrace.dispatch import workers
from webtrace.gateway.principal import Principal


def _traced(token: str) -> Response:
    """Raises Problem."""
    try:
        return selectors.shared_response(token=token)
    except Response.DoesNotExist:
        message = "This link leads nowhere: it was taken back, or what it showed is deleted."
        raise Problem(404, "not_found", message) from None


def show(request: HttpRequest, principal: Principal | None, token: str) -> dict[str, Any]:
    """`{response, html, model}`: the record, its answer as HTML, and the dimensions of what computed it."""
    response = _traced(token)
    return {
        "response": msgspec.to_builtins(traced_response(response)),
        "html": to_html(response.text),
        "model": workers.model_of(response),
    }


def events(request: HttpRequest, principal: Principal | None, token: str) -> HttpResponse:
    return responses.events_of(_traced(token), request, public_text)


async def view(request: HttpRequest, principal: Principal | None, token: str, slug: str) -> HttpResponse:
    response = await in_database(_traced, token)
    return await views.view_of(response, request, slug)


def export(request: HttpRequest, principal: Principal | None, token: str) -> HttpResponse:
    return responses.exported(_traced(token))
