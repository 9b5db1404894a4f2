"""What all JSON endpoints share: who asks, how bodies are read, how answers and errors look."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar
from uuid import UUID

import msgspec
from asgiref.sync import iscoroutinefunction
from django.conf import settings
from django.core.exceptions import ObjectDoesNotExist, RequestDataTooBig
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.middleware.csrf import CsrfViewMiddleware
from django.views.decorators.csrf import csrf_exempt

from webtrace.api.database import in_database
from webtrace.api.frames import UnreadableFrame, decode
from webtrace.events import ErrorBody
from webtrace.gateway import address, identity, readings
from webtrace.gateway.identity import Unauthenticated
from webtrace.gateway.principal import Principal

T = TypeVar("T")
Handler = Callable[..., Any]


class Problem(Exception):
    """An answer with an HTTP error status and `{"error": {code, message, field?, retry_after?}}`."""

    def __init__(
        self, status: int, code: str, message: str, field: str | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.error = ErrorBody(code, message, field, retry_after)
        self.headers: dict[str, str] = {}
        if retry_after is not None:
            self.headers["Retry-After"] = str(max(1, round(retry_after)))


class MethodNotAllowed(Problem):
    def __init__(self, *methods: str) -> None:
        super().__init__(405, "method_not_allowed", f"Use {', '.join(methods)} here.")
        self.headers["Allow"] = ", ".join(methods)


def answering(method: str | None, methods: Collection[str]) -> str:
    """The one of `methods` that answers a request's: who answers GET answers HEAD, whose body the server leaves out.

    Raises MethodNotAllowed.
    """
    named = [*methods, *(["HEAD"] if "GET" in methods else [])]
    if method not in named:
        raise MethodNotAllowed(*named)
    return "GET" if method == "HEAD" else method


def endpoint(*, visitors: bool = False, costs_reading: bool = False, **handlers: Handler) -> Handler:
    """A view with one handler a method: `handler(request, principal, **path) -> JSON-able | HttpResponse | None`.

    With `visitors`, the principal is null for somebody who is nobody yet; else they get 401. With `costs_reading`, each
    request spends a reading of the principal's, or of the share link's `token` in the path. Handlers may be
    coroutines, then all of them must be. Rows that do not exist, or not for this principal, answer 404.
    """

    def prepared(request: HttpRequest, path: Mapping[str, Any]) -> tuple[Handler, Principal | None]:
        handler = handlers[answering(request.method, handlers)]
        principal = identify(request, visitors=visitors)
        if costs_reading:
            _spend_reading(request, principal, path.get("token"))
        return handler, principal

    def view(request: HttpRequest, **path: Any) -> HttpResponseBase:
        try:
            handler, principal = prepared(request, path)
            return reply(handler(request, principal, **path))
        except Exception as error:
            return failure(error)

    async def async_view(request: HttpRequest, **path: Any) -> HttpResponseBase:
        try:
            handler, principal = await in_database(prepared, request, path)
            return reply(await handler(request, principal, **path))
        except Exception as error:
            return failure(error)

    is_async = any(iscoroutinefunction(handler) for handler in handlers.values())
    # Exempt from the middleware: identify() asks for the token where a session is the credential.
    return csrf_exempt(async_view if is_async else view)


def identify(request: HttpRequest, *, visitors: bool = False) -> Principal | None:
    """Who sends this request, by key or by session. Synchronous: uses the database. Raises Problem."""
    place = address.of_request(request)
    try:
        if authorization := request.headers.get("Authorization"):
            return identity.by_key(authorization, place)
        principal = identity.by_session(request.COOKIES.get(settings.SESSION_COOKIE_NAME), place)
        _check_csrf(request)
    except Unauthenticated as problem:
        if visitors and "Authorization" not in request.headers:
            return None
        raise Problem(401, "unauthenticated", str(problem)) from None
    if principal is None and not visitors:
        raise Problem(401, "unauthenticated", "Ask for an answer first: there is nothing of yours here yet.")
    return principal


def _spend_reading(request: HttpRequest, principal: Principal | None, link: str | None) -> None:
    try:
        readings.consume(principal, address=address.of_request(request), link=link)
    except readings.TooManyReadings as problem:
        raise Problem(429, "rate_limited", str(problem), retry_after=problem.retry_after) from None


def read_body(request: HttpRequest, decoder: msgspec.json.Decoder[T]) -> T:
    """The request's JSON body. Raises Problem with the field that is wrong."""
    try:
        return decode(request.body.decode(), decoder)
    except RequestDataTooBig:
        raise Problem(413, "too_large", f"At most {settings.MAX_FRAME_BYTES:,} bytes are allowed.") from None
    except UnicodeDecodeError:
        raise Problem(400, "invalid_json", "The body is not UTF-8 text.") from None
    except UnreadableFrame as problem:
        raise Problem(400, problem.error.code, problem.error.message, problem.error.field) from None


def integer(request: HttpRequest, name: str, default: int, *, low: int = 0, high: int = 2**31 - 1) -> int:
    """A whole number from the query string. Raises Problem with its name and limits."""
    raw = request.GET.get(name)
    if raw is None or raw == "":
        return default
    try:
        value = int(raw)
    except ValueError:
        value = low - 1
    if not low <= value <= high:
        raise Problem(400, "invalid_value", f"{name} must be a whole number from {low} to {high}.", name)
    return value


def identifier(text: str) -> UUID:
    """An id from the path. Raises Problem: what cannot be an id is not there."""
    try:
        return UUID(text)
    except ValueError:
        raise Problem(404, "not_found", "There is no such thing of yours.") from None


def reply(content: Any) -> HttpResponseBase:
    """200 with JSON, 204 for nothing."""
    if isinstance(content, HttpResponseBase):
        return content
    if content is None:
        return HttpResponse(status=204)
    return HttpResponse(msgspec.json.encode(content), content_type="application/json")


def failure(error: Exception) -> HttpResponse:
    """The answer to a Problem or a missing row. Anything else is raised again, for `webtrace.api.errors`."""
    if isinstance(error, ObjectDoesNotExist):
        error = Problem(404, "not_found", "There is no such thing of yours.")
    if not isinstance(error, Problem):
        raise error
    return problem_response(error)


def problem_response(problem: Problem) -> HttpResponse:
    body = {name: value for name, value in msgspec.to_builtins(problem.error).items() if value is not None}
    content = msgspec.json.encode({"error": body})
    return HttpResponse(content, status=problem.status, content_type="application/json", headers=problem.headers)


class _CsrfCheck(CsrfViewMiddleware):
    """Django's check, giving the reason instead of a page."""

    def _reject(self, request: HttpRequest, reason: str) -> str:
        return reason


def _check_csrf(request: HttpRequest) -> None:
    check = _CsrfCheck(HttpResponse)
    check.process_request(request)
    if (reason := check.process_view(request, HttpResponse, (), {})) is not None:
        raise Problem(403, "csrf", f"{reason} Send the csrftoken cookie's value as X-CSRFToken.")
