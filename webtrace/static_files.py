"""Sends static files: from the copies that `published` makes, or straight from the source while DEBUG is on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.conf import settings
from django.http import HttpRequest
from whitenoise.middleware import WhiteNoiseMiddleware

from webtrace.published import publish

ADMIN = "admin/"
"""Django's own files for the admin are many, seldom asked for, and sent as they are."""


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

    def add_file_to_dictionary(self, url: str, path: str, stat_cache: Any = None) -> None:
        """Called for every file at the start, unless DEBUG looks them up at each request."""
        if not url.startswith(f"{self.static_prefix}{ADMIN}"):
            path = str(publish(Path(path), settings.DATA_DIR / "static"))
        super().add_file_to_dictionary(url, path)

    async def _serve_or_pass(self, request: HttpRequest) -> Any:
        file = self.find_file(request.path_info) if self.autorefresh else self.files.get(request.path_info)
        if file is not None:
            return self.serve(file, request)
        return await self.get_response(request)
