"""GET /api/v1/schema: the wire as AsyncAPI."""

from __future__ import annotations

from functools import lru_cache

import msgspec
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from webtrace.api.protocol import asyncapi


@require_safe
def schema(request: HttpRequest) -> HttpResponse:
    return HttpResponse(_encoded(), content_type="application/json")


@lru_cache(maxsize=1)
def _encoded() -> bytes:
    return msgspec.json.encode(asyncapi())
