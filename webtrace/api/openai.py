"""OpenAI-compatible endpoints: GET /v1/models and POST /v1/chat/completions."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import msgspec
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from inference.messages import Sampling
from webtrace import journey
from webtrace.api.database import in_database, release_connection
from webtrace.api.frames import MAX_NAME
from webtrace.api.http import Problem, answering, identify, read_body
from webtrace.api.hub import Hub
from webtrace.api.openai_types import FINISH, MAX_TOP_LOGPROBS, ChatRequest, token_logprobs
from webtrace.client_events import ResponseCreate
from webtrace.conversations.log import Line, Place
from webtrace.dispatch import workers
from webtrace.dispatch.cancel import cancel_response
from webtrace.dispatch.models import Worker
from webtrace.events import END_TYPES, ErrorBody
from webtrace.gateway.incoming import Incoming, shown_headers
from webtrace.gateway.origin import is_encrypted
from webtrace.gateway.principal import Principal

DEFAULTS = Sampling(temperature=1.0, top_k=0, top_p=1.0, max_tokens=1024)
"""OpenAI's, for what neither the client nor the model's checkpoint says. OpenAI has no limit then, but room for an
answer is taken from the history."""
_decoder = msgspec.json.Decoder(ChatRequest)
_STATUS = {
    "unauthenticated": 401,
    "not_found": 404,
    "model_not_found": 404,
    "context_length_exceeded": 400,
    "rate_limited": 429,
    "model_unavailable": 503,
    "storage_full": 503,
    "storage_unavailable": 503,
}
_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}


@csrf_exempt
async def models(request: HttpRequest) -> HttpResponse:
    """The models of the living workers, the one that `auto` stands for first; `sampling` is our own addition: what a
    model's checkpoint states, the defaults of requests to it."""
    try:
        await in_database(_principal, request, "GET")
    except Problem as problem:
        return failure(problem)
    alive: list[Worker] = await in_database(workers.by_preference)
    data = {
        worker.model: {
            "id": worker.model,
            "object": "model",
            "created": int(worker.started_at.timestamp()),
            "owned_by": "webtrace",
            "sampling": worker.model_info.get("sampling", {}),
        }
        for worker in alive
    }
    return _json({"object": "list", "data": list(data.values())})


@csrf_exempt
async def chat_completions(request: HttpRequest) -> HttpResponseBase:
    """One answer, whole or as server-sent events. When the client goes away, generation stops."""
    try:
        principal = await in_database(_principal, request, "POST")
        asked = read_body(request, _decoder)
        _check(asked)
        completion = await _admit(request, principal, asked)
        await in_database(release_connection)
    except Problem as problem:
        return failure(problem)
    if asked.stream:
        events = StreamingHttpResponse(_stream(completion), content_type="text/event-stream")
        events["Cache-Control"] = "no-cache"
        events["X-Accel-Buffering"] = "no"
        return events
    try:
        return await _whole(completion)
    except Problem as problem:
        return failure(problem)


@dataclass(frozen=True)
class Completion:
    """A response that is being generated, and what its client asked to see of it."""

    response_id: uuid.UUID
    asked: ChatRequest
    created: int

    def envelope(self, kind: str, model: str) -> dict[str, Any]:
        return {"id": f"chatcmpl-{self.response_id.hex}", "object": kind, "created": self.created, "model": model}


class Inbox:
    """A sink of the hub that keeps everything: one answer is all there will be."""

    def __init__(self) -> None:
        self.lines: asyncio.Queue[Line] = asyncio.Queue()

    def put_line(self, response_id: str, line: Line) -> None:
        self.lines.put_nowait(line)

    async def room(self) -> None:
        """Nothing to wait for."""


async def lines_of(response_id: uuid.UUID) -> AsyncGenerator[Line]:
    """Every event of a response to its end. Leaving early cancels it: nobody can come back to an HTTP request."""
    hub, inbox = Hub.current(), Inbox()
    watch = hub.watch(response_id, Place(), inbox)
    ended = False
    try:
        while not ended:
            line = await inbox.lines.get()
            ended = line.type in END_TYPES
            yield line
    finally:
        hub.unwatch(watch)
        if not ended:
            hub.run_on(cancel_response(response_id, reason="disconnected"))


async def _admit(request: HttpRequest, principal: Principal, asked: ChatRequest) -> Completion:
    """Stages 1 and 2. Raises Problem when the gateway refuses."""
    headers = [(name.lower().encode(), value.encode()) for name, value in request.headers.items()]
    message = ResponseCreate(
        event_id=str(uuid.uuid4()),
        input=[message.as_input() for message in asked.messages],
        model=asked.model,
        sampling=asked.sampling,
    )
    incoming = Incoming(
        message=message,
        transport="http",
        frame=request.body.decode(),
        headers=shown_headers(headers),
        encrypted=is_encrypted({name.lower(): value for name, value in request.headers.items()}, request.scheme),
        defaults=msgspec.structs.replace(DEFAULTS, max_tokens=min(DEFAULTS.max_tokens, principal.max_tokens)),
    )
    outcome = await _admit_or_cancel(incoming, principal)
    if isinstance(outcome, journey.Refused):
        error = outcome.error
        status = _STATUS.get(error.code, 400)
        raise Problem(status, error.code, error.message, _parameter(error.field), error.retry_after)
    return Completion(outcome.response_id, asked, int(time.time()))


async def _admit_or_cancel(incoming: Incoming, principal: Principal) -> journey.Admitted | journey.Refused:
    """A client that goes away meanwhile must not leave a response behind that nobody can come back to."""
    admission = asyncio.ensure_future(journey.admit(incoming, principal, keep=False))

    async def cancel() -> None:
        outcome = await admission
        if isinstance(outcome, journey.Admitted):
            await cancel_response(outcome.response_id, reason="disconnected")

    try:
        return await asyncio.shield(admission)
    except asyncio.CancelledError:
        Hub.current().run_on(cancel())
        raise


async def _whole(completion: Completion) -> HttpResponse:
    model = completion.asked.model
    logprobs: list[dict[str, Any]] = []
    end: dict[str, Any] = {}
    async with aclosing(lines_of(completion.response_id)) as lines:
        async for line in lines:
            event = msgspec.json.decode(line.text)
            if line.type == "response.in_progress":
                model = event["model"]
            elif line.type == "trace.step" and completion.asked.logprobs:
                logprobs.append(token_logprobs(event, completion.asked.top_logprobs or 0))
            elif line.type in END_TYPES:
                end = event
    if end["finish_reason"] not in FINISH:
        raise _broken(end)
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": end["text"], "refusal": None},
        "logprobs": {"content": logprobs, "refusal": None} if completion.asked.logprobs else None,
        "finish_reason": FINISH[end["finish_reason"]],
    }
    return _json({**completion.envelope("chat.completion", model), "choices": [choice], "usage": _usage(end)})


async def _stream(completion: Completion) -> AsyncGenerator[bytes]:
    chunks = Chunks(completion)
    async with aclosing(lines_of(completion.response_id)) as lines:
        async for line in lines:
            for chunk in chunks.of(line):
                yield chunk


class Chunks:
    """Turns a response's events into the chunks of a streamed completion."""

    def __init__(self, completion: Completion) -> None:
        self._completion = completion
        self._asked = completion.asked
        self._model = completion.asked.model
        self._steps: list[dict[str, Any]] = []  # logprobs that wait for the text they belong to
        options = completion.asked.stream_options
        self._with_usage = options is not None and options.include_usage

    def of(self, line: Line) -> Iterator[bytes]:
        if line.type == "response.in_progress":
            self._model = msgspec.json.decode(line.text)["model"]
            yield self._chunk({"role": "assistant", "content": ""})
        elif line.type == "response.output_text.delta":
            yield self._chunk({"content": msgspec.json.decode(line.text)["delta"]})
        elif line.type == "trace.step" and self._asked.logprobs:
            self._steps.append(token_logprobs(msgspec.json.decode(line.text), self._asked.top_logprobs or 0))
        elif line.type in END_TYPES:
            yield from self._end(msgspec.json.decode(line.text))

    def _end(self, end: dict[str, Any]) -> Iterator[bytes]:
        if end["finish_reason"] not in FINISH:
            yield _sse(_error_body(_broken(end)))
            return
        yield self._chunk({}, FINISH[end["finish_reason"]])
        if self._with_usage:
            usage = {"choices": [], "usage": _usage(end)}
            yield _sse({**self._completion.envelope("chat.completion.chunk", self._model), **usage})
        yield b"data: [DONE]\n\n"

    def _chunk(self, delta: dict[str, Any], finish: str | None = None) -> bytes:
        logprobs = {"content": self._steps, "refusal": None} if self._steps else None
        self._steps = []
        choice = {"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
        usage = {"usage": None} if self._with_usage else {}
        envelope = self._completion.envelope("chat.completion.chunk", self._model)
        return _sse({**envelope, "choices": [choice], **usage})


def _principal(request: HttpRequest, method: str) -> Principal:
    answering(request.method, [method])
    principal = identify(request)
    assert principal is not None
    return principal


def _check(asked: ChatRequest) -> None:
    """What the gateway's own checks cannot know."""
    if not 1 <= len(asked.model) <= MAX_NAME:
        raise Problem(400, "invalid_value", f"model must have 1 to {MAX_NAME} characters.", "model")
    if asked.top_logprobs is not None and not 0 <= asked.top_logprobs <= MAX_TOP_LOGPROBS:
        raise Problem(400, "invalid_value", f"top_logprobs must be from 0 to {MAX_TOP_LOGPROBS}.", "top_logprobs")
    if asked.top_logprobs and not asked.logprobs:
        raise Problem(400, "invalid_value", "top_logprobs needs logprobs to be true.", "top_logprobs")


def _broken(end: dict[str, Any]) -> Problem:
    """An end without an answer: the engine failed, the worker was lost, somebody cancelled."""
    error = end.get("error") or {}
    reasons = {"worker_lost": "The worker that computed this answer was lost.", "cancelled": "This was cancelled."}
    message = error.get("message") or reasons.get(end["finish_reason"], "The answer could not be finished.")
    code = error.get("code") or end["finish_reason"]
    return Problem(_STATUS.get(code, 500), code, message, _parameter(error.get("field")), error.get("retry_after"))


def _parameter(field: str | None) -> str | None:
    """A field of ours by the name that OpenAI's clients know it by."""
    return field.removeprefix("sampling.").replace("input", "messages") if field else None


def _usage(end: dict[str, Any]) -> dict[str, Any]:
    usage = end["usage"]
    return {
        "prompt_tokens": usage["input_tokens"],
        "completion_tokens": usage["output_tokens"],
        "total_tokens": usage["input_tokens"] + usage["output_tokens"],
        "prompt_tokens_details": {"cached_tokens": usage["cached_tokens"]},
    }


def _error_body(problem: Problem) -> dict[str, Any]:
    error: ErrorBody = problem.error
    kind = _TYPES.get(problem.status, "server_error" if problem.status >= 500 else "invalid_request_error")
    return {"error": {"message": error.message, "type": kind, "param": error.field, "code": error.code}}


def failure(problem: Problem) -> HttpResponse:
    """A problem as OpenAI's clients expect it."""
    return _json(_error_body(problem), problem.status, problem.headers)


def _sse(body: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(body) + b"\n\n"


def _json(body: dict[str, Any], status: int = 200, headers: dict[str, str] | None = None) -> HttpResponse:
    content = msgspec.json.encode(body)
    return HttpResponse(content, status=status, content_type="application/json", headers=headers)
