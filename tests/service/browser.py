"""HTTP as a browser speaks it: cookies, the page's origin, the token of its forms."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from http.cookiejar import CookieJar
from typing import Any, NamedTuple


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Browser:
    """One browser profile. Redirects are followed."""

    def __init__(self, url: str, headers: dict[str, str] | None = None) -> None:
        self.url = url
        self.headers = headers or {}
        self.jar = CookieJar()
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.jar))

    @property
    def cookies(self) -> dict[str, str]:
        return {cookie.name: cookie.value or "" for cookie in self.jar}

    def get(self, path: str) -> Reply:
        return self._send("GET", path)

    def submit(self, path: str, **fields: str) -> Reply:
        """Send a form, with the token of its page."""
        body = urllib.parse.urlencode({"csrfmiddlewaretoken": self.cookies["csrftoken"], **fields})
        return self._send("POST", path, body.encode())

    def send_json(self, method: str, path: str, body: Any = None) -> Reply:
        headers = {"Content-Type": "application/json", "X-CSRFToken": self.cookies.get("csrftoken", "")}
        return self._send(method, path, json.dumps(body).encode(), headers)

    def _send(self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> Reply:
        sent = {"Origin": self.url, **self.headers, **(headers or {})}
        request = urllib.request.Request(self.url + path, data=body, headers=sent, method=method)
        try:
            with self._opener.open(request, timeout=20) as reply:
                return Reply(reply.status, dict(reply.headers), reply.read())
        except urllib.error.HTTPError as error:
            return Reply(error.code, dict(error.headers), error.read())
