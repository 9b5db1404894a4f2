"""GET /api/v1/schema: the wire as AsyncAPI; /api/v1/schema/trace: the trace file as JSON Schema."""

from __future__ import annotations

from functools import lru_cache

import msgspec
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from webtrace.api import trace_file
from webtrace.api.protocol import asyncapi


@require_safe
def schema(request: HttpRequest) -> HttpResponse:
    return HttpResponse(_encoded(), content_type="application/json")


@require_safe
def trace_schema(request: HttpRequest) -> HttpResponse:
    return HttpResponse(msgspec.json.encode(trace_file.schema()), content_type="application/schema+json")


@lru_cache(maxsize=1)
def _encoded() -> bytes:
    return msgspec.json.encode(asyncapi())
