"""Answers requests for views: asks the engine, leaves the result in the cache under the asker's key."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from channels.db import database_sync_to_async
from django.core.cache import cache

from inference.parameters import CHOICE
from inference.text import Tokenizer
from webtrace.conversations.models import Response
from webtrace.dispatch.views import ViewResult
from webtrace.worker.engine import Engine, EngineFailed, EngineLost
from webtrace.worker.recorder import Recorder
from webtrace.worker.token_texts import with_token_texts

logger = logging.getLogger(__name__)

KEPT_S = 600  # a view never changes under its key
PROBLEM_KEPT_S = 5
TELLING = frozenset({"logits", "lens", "probabilities", "what_if", "kv_cache"})
"""Views that by themselves tell step 0's choice."""


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
        field = problem.field
        code, message = ("invalid_value", f"{field}: {problem}") if field else ("unavailable", str(problem))
        result = ViewResult(code=code, message=message, field=field)
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
        token_ids, num_prompt_tokens = recording.token_ids, recording.usage.input_tokens
        decoded_prefix = recording.decoded_prefix
    else:
        response = await database_sync_to_async(Response.objects.filter(pk=request.response_id).first)()
        if response is None:
            return ViewResult(code="not_found", message="There is no such response.")
        if response.fingerprint != engine.require().fingerprint:
            return ViewResult(code="unavailable", message="This worker runs another model or kernel.")
        token_ids, num_prompt_tokens = response.token_ids, response.num_prompt_tokens
        decoded_prefix = response.decoded_prefix
    if not token_ids:
        return ViewResult(code="not_found", message="No token of this response was computed.")
    _refuse_unreleased(request, num_prompt_tokens, len(token_ids) - num_prompt_tokens)
    query = request.query
    if request.slug == "what_if":
        query = await _own_settings(request.response_id) | query
    body = await engine.view(
        response_id=str(request.response_id),
        slug=request.slug,
        query=query,
        token_ids=token_ids,
        num_prompt_tokens=num_prompt_tokens,
        decoded_prefix=decoded_prefix,
    )
    return ViewResult(body=with_token_texts(body, tokenizer))


async def _own_settings(response_id: UUID) -> dict[str, Any]:
    """How the response's tokens were chosen: a what-if changes some of it, the rest is as it was."""
    sampling = Response.objects.filter(pk=response_id).values_list("sampling", flat=True)
    own = await database_sync_to_async(sampling.get)()
    return {name: own[name] for name in CHOICE if name in own}


def _refuse_unreleased(request: ViewRequest, num_prompt_tokens: int, num_released: int) -> None:
    """What chose a token may be looked at once the token's text is released: the numbers would tell it.

    Raises EngineFailed, as the engine does for a position that is not there. The engine would take 7.0 for 7.
    """
    step, position = request.query.get("step"), request.query.get("position")
    for field, value in (("position", position), ("step", step)):
        if not isinstance(value, int | None):
            raise EngineFailed("must be a whole number", field)
    if position is not None:
        field, asked = "position", position - num_prompt_tokens + 1
    elif step is not None:
        field, asked = "step", step
    else:
        field, asked = "step", 0 if request.slug in TELLING else -1
    if asked >= max(num_released, 0):
        raise EngineFailed("nothing is released yet of what was chosen there", field)
