"""Answers requests for views: asks the engine, leaves the result in the cache under the asker's key."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from channels.db import database_sync_to_async
from django.core.cache import cache

from inference.text import Tokenizer
from webtrace.conversations.models import Response
from webtrace.dispatch.views import ViewResult
from webtrace.worker.engine import Engine, EngineFailed, EngineLost
from webtrace.worker.recorder import Recorder
from webtrace.worker.token_texts import with_token_texts

logger = logging.getLogger(__name__)

KEPT_S = 600  # a view never changes under its key
PROBLEM_KEPT_S = 5


@dataclass(frozen=True)
class ViewRequest:
    request_key: str
    response_id: UUID
    slug: str
    query: dict[str, Any]


async def answer(request: ViewRequest, engine: Engine, recorder: Recorder, tokenizer: Tokenizer) -> None:
    """Always leaves something under the key."""
    try:
        result = await _view(request, engine, recorder, tokenizer)
    except EngineFailed as problem:
        code = "invalid_value" if problem.field else "unavailable"
        result = ViewResult(code=code, message=str(problem), field=problem.field)
    except EngineLost as problem:
        result = ViewResult(code="unavailable", message=f"The engine is not available: {problem}")
    except Exception:
        logger.exception("The view %s of %s failed.", request.slug, request.response_id)
        result = ViewResult(code="unavailable", message="The view could not be made; the failure was logged.")
    kept = KEPT_S if result.body is not None else PROBLEM_KEPT_S
    await cache.aset(request.request_key, result.pack(), timeout=kept)


async def _view(request: ViewRequest, engine: Engine, recorder: Recorder, tokenizer: Tokenizer) -> ViewResult:
    """From what is released so far while the response runs, else from its stored token ids."""
    if recording := recorder.recording(request.response_id):
        token_ids, num_prompt_tokens = recording.token_ids, recording.num_prompt_tokens
    else:
        response = await database_sync_to_async(Response.objects.filter(pk=request.response_id).first)()
        if response is None:
            return ViewResult(code="not_found", message="There is no such response.")
        if response.fingerprint != engine.require().fingerprint:
            return ViewResult(code="unavailable", message="This worker runs another model or kernel.")
        token_ids, num_prompt_tokens = response.token_ids, response.num_prompt_tokens
    if not token_ids:
        return ViewResult(code="not_found", message="No token of this response was computed.")
    body = await engine.view(
        response_id=str(request.response_id),
        slug=request.slug,
        query=request.query,
        token_ids=token_ids,
        num_prompt_tokens=num_prompt_tokens,
    )
    return ViewResult(body=with_token_texts(body, tokenizer))
