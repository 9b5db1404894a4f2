"""Static files from the finders, without holding a thread for the length of every other request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest
from whitenoise.middleware import WhiteNoiseMiddleware


class StaticFilesMiddleware(WhiteNoiseMiddleware):  # type: ignore[misc]
    """WhiteNoise knows only synchronous requests: every asynchronous view behind it would run in a thread of its
    own, and could not be cancelled when its client goes away."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        super().__init__(get_response)
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:
        if iscoroutinefunction(self):
            return self._serve_or_pass(request)
        return super().__call__(request)

    async def _serve_or_pass(self, request: HttpRequest) -> Any:
        file = self.find_file(request.path_info) if self.autorefresh else self.files.get(request.path_info)
        if file is not None:
            return self.serve(file, request)
        return await self.get_response(request)
