"""What nobody answered for: addresses that lead nowhere, unreadable requests, failures. In JSON for programs."""

from __future__ import annotations

import sys

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.views import defaults

from webtrace.api import openai
from webtrace.api.http import Problem, problem_response
from webtrace.storage_problem import storage_problem


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    if _is_program(request):
        return _problem(request, Problem(400, "bad_request", "This request cannot be read."))
    return defaults.bad_request(request, exception)


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    if _is_program(request):
        return _problem(request, Problem(403, "forbidden", "This is not allowed."))
    return defaults.permission_denied(request, exception)


def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    if _is_program(request):
        return _problem(request, Problem(404, "not_found", "This address leads nowhere."))
    return defaults.page_not_found(request, exception)


def server_error(request: HttpRequest) -> HttpResponse:
    """503 where storage is the trouble. Nothing here may need the database."""
    problem = Problem(500, "internal_error", "The service failed on this request; the failure was logged.")
    if error := storage_problem(sys.exc_info()[1]):
        problem = Problem(503, error.code, error.message, retry_after=error.retry_after)
    if _is_program(request):
        return _problem(request, problem)
    response = HttpResponse(render_to_string("failure.html", {"problem": problem}), status=problem.status)
    if problem.error.retry_after is not None:
        response["Retry-After"] = str(round(problem.error.retry_after))
    return response


def _is_program(request: HttpRequest) -> bool:
    return request.path_info.startswith(("/api/", "/v1/"))


def _problem(request: HttpRequest, problem: Problem) -> HttpResponse:
    if request.path_info.startswith("/v1/"):
        return openai.failure(problem)
    return problem_response(problem)
