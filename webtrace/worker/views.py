"""Answers requests for views: asks the engine, leaves the result in the cache under the asker's key."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import msgspec
from channels.db import database_sync_to_async
from django.core.cache import cache

from inference.messages import Subject
from inference.parameters import CHOICE
from inference.query import Query, QueryError, parse_query
from inference.text import Tokenizer
from webtrace.conversations.models import Response
from webtrace.dispatch.views import ViewResult
from webtrace.running.engine import Engine, EngineFailed, EngineLost
from webtrace.running.recorder import Recorder
from webtrace.worker.lesson import training
from webtrace.worker.logprobs import recorded_logprobs
from webtrace.worker.message_tokens import message_tokens
from webtrace.worker.prompt_tokens import prompt_tokens
from webtrace.worker.sentence import sentence
from webtrace.worker.statements import statements
from webtrace.worker.token_texts import with_token_texts

logger = logging.getLogger(__name__)

KEPT_S = 600  # a view never changes under its key
PROBLEM_KEPT_S = 5
TELLING = frozenset({"logits", "lens", "attribution", "ablation", "probabilities", "what_if", "kv_cache"})
"""Views that by themselves tell step 0's choice."""


@dataclass(frozen=True)
class ViewRequest:
    request_key: str
    response_id: UUID
    slug: str
    query: dict[str, Any]

    @property
    def question(self) -> Hashable:
        """Equal where one answer serves both."""
        return self.response_id, self.slug, msgspec.json.encode(sorted(self.query.items()))


async def answer(request: ViewRequest, engine: Engine, recorder: Recorder, tokenizer: Tokenizer) -> ViewResult:
    """Never fails: what went wrong is an answer too."""
    try:
        return await _view(request, engine, recorder, tokenizer)
    except QueryError as problem:
        return ViewResult(code="invalid_value", message=str(problem), field=problem.field)
    except EngineFailed as problem:
        field = problem.field
        code, message = ("invalid_value", f"{field}: {problem}") if field else ("unavailable", str(problem))
        return ViewResult(code=code, message=message, field=field)
    except EngineLost as problem:
        return ViewResult(code="unavailable", message=f"The engine is not available: {problem}")
    except Response.DoesNotExist:
        return ViewResult(code="not_found", message="There is no such response.")
    except Exception:
        logger.exception("The view %s of %s failed.", request.slug, request.response_id)
        return ViewResult(code="unavailable", message="The view could not be made; the failure was logged.")


async def leave(result: ViewResult, request_keys: Iterable[str]) -> None:
    """Where those who asked look for it."""
    kept = KEPT_S if result.body is not None else PROBLEM_KEPT_S
    for request_key in request_keys:
        await cache.aset(request_key, result.pack(), timeout=kept)


async def _view(request: ViewRequest, engine: Engine, recorder: Recorder, tokenizer: Tokenizer) -> ViewResult:
    """From what is released so far while the response runs, else from its stored token ids."""
    slug, query = request.slug, request.query
    asked = parse_query(slug, query)
    if slug == "message_tokens":
        return ViewResult(body=await message_tokens(request.response_id, tokenizer))
    subject = await _subject(request.response_id, engine, recorder)
    if not subject.token_ids:
        return ViewResult(code="not_found", message="No token of this response was computed.")
    if slug == "tokens":
        return ViewResult(body=prompt_tokens(subject, asked, tokenizer))
    if slug == "sentence":
        return ViewResult(body=await sentence(request.response_id, engine))
    if slug == "statements":
        return ViewResult(body=await statements(engine, tokenizer))
    if slug == "training":
        served = engine.require().model
        return ViewResult(body=await training(served["name"], served["num_parameters"]))
    _refuse_unreleased(slug, asked, subject)
    other = None
    if asked.other is not None:
        other = await _subject(_identifier(asked.other), engine, recorder)
        _refuse_unreleased_there(asked, other)
    if slug == "what_if":
        query = await _own_settings(request.response_id) | query
    body = await engine.view(slug, query, subject, other)
    return ViewResult(body=with_token_texts(body, tokenizer))


async def _subject(response_id: UUID, engine: Engine, recorder: Recorder) -> Subject:
    """Raises Response.DoesNotExist."""
    if recording := recorder.recording(response_id):
        return Subject(
            response_id=str(response_id),
            fingerprint=engine.require().fingerprint,
            token_ids=list(recording.token_ids),
            num_prompt_tokens=recording.usage.input_tokens,
            decoded_prefix=recording.decoded_prefix,
        )
    response = await database_sync_to_async(Response.objects.get)(pk=response_id)
    return Subject(
        response_id=str(response_id),
        fingerprint=response.fingerprint,
        token_ids=response.token_ids,
        num_prompt_tokens=response.num_prompt_tokens,
        decoded_prefix=[(first, last) for first, last in response.decoded_prefix],
        logprobs=await recorded_logprobs(response),
    )


def _identifier(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise QueryError("other", "must be the id of a response") from None


async def _own_settings(response_id: UUID) -> dict[str, Any]:
    """How the response's tokens were chosen: a what-if changes some of it, the rest is as it was."""
    sampling = Response.objects.filter(pk=response_id).values_list("sampling", flat=True)
    own = await database_sync_to_async(sampling.get)()
    return {name: own[name] for name in CHOICE if name in own}


def _refuse_unreleased(slug: str, asked: Query, subject: Subject) -> None:
    """What chose a token may be looked at once the token's text is released: the numbers would tell it.

    Raises QueryError, as the engine does for a position that is not there.
    """
    first, num_released = _first_choice(subject)
    if asked.position is not None:
        _refuse_past("position", asked.position, first + num_released)
    elif asked.step is not None:
        _refuse_past("step", asked.step, num_released)
    elif slug in TELLING:
        _refuse_past("step", 0, num_released)


def _refuse_unreleased_there(asked: Query, other: Subject) -> None:
    """The same for the second response of a comparison."""
    if not other.token_ids:
        raise QueryError("other", "has no computed token")
    if asked.other_position is not None:
        _refuse_past("other_position", asked.other_position, sum(_first_choice(other)))


def _first_choice(subject: Subject) -> tuple[int, int]:
    """The position that chose the answer's first token, and how many tokens are released."""
    return subject.num_prompt_tokens - 1, max(len(subject.token_ids) - subject.num_prompt_tokens, 0)


def _refuse_past(field: str, value: int, size: int) -> None:
    if size <= 0:
        raise QueryError(field, f"must wait: nothing is released yet of what was chosen at {value}")
    if value >= size:
        raise QueryError(field, f"must be 0 to {size - 1} (what is released), not {value}")
