"""Bodies of HTTP requests, bounded while they come in: the server reads each to its end before anybody looks at it."""

from __future__ import annotations

import msgspec
from daphne import http_protocol
from django.conf import settings

# Django answers what is a little too big by itself, after reading it.
MOST_BYTES = 2 * settings.MAX_FRAME_BYTES
_ERROR = {"code": "too_large", "message": f"At most {settings.MAX_FRAME_BYTES:,} bytes are allowed."}
_BODY = msgspec.json.encode({"error": _ERROR})
_REFUSAL = (
    b"HTTP/1.1 413 Content Too Large\r\nContent-Type: application/json\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(_BODY), _BODY)
)


class BoundedRequest(http_protocol.WebRequest):  # type: ignore[misc]
    """A request whose body is refused, and no longer read, once it is or says it will be too big."""

    num_bytes = 0

    def gotLength(self, length: int | None) -> None:
        super().gotLength(min(length or 0, MOST_BYTES))
        if length is not None and length > MOST_BYTES:
            self._refuse()

    def handleContentChunk(self, data: bytes) -> None:
        self.num_bytes += len(data)
        if self.num_bytes <= MOST_BYTES:
            super().handleContentChunk(data)
        elif self.num_bytes - len(data) <= MOST_BYTES:
            self._refuse()

    def _refuse(self) -> None:
        self.channel.transport.write(_REFUSAL)
        self.channel.loseConnection()


def bound_bodies() -> None:
    """Have the requests of every daphne in this process bounded: it has no setting for it, and makes whatever class of
    request its module names."""
    http_protocol.WebRequest = BoundedRequest
