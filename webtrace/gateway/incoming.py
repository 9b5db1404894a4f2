"""A request as it came in: the message, the bytes it came as, and what stage 1 shows of them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from inference.messages import Sampling
from webtrace.client_events import ResponseCreate
from webtrace.reporting.service_reports import Header, RequestReport

SHOWN_FRAME_BYTES = 16_000
# Headers that say something about the request. Cookies, keys and forwarding details are not among them.
SHOWN_HEADERS = (
    "host", "origin", "user-agent", "content-type", "content-length", "accept", "accept-language",
    "sec-websocket-version", "sec-websocket-extensions",
)  # fmt: skip


@dataclass(frozen=True)
class Incoming:
    """`arrived` is the web process's monotonic clock in seconds; `arrived_at` its wall clock."""

    message: ResponseCreate
    transport: Literal["websocket", "http"]
    frame: str
    headers: tuple[Header, ...]
    encrypted: bool
    defaults: Sampling = field(default_factory=Sampling)
    """What neither the request nor the model's checkpoint says."""
    arrived_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    arrived: float = field(default_factory=time.perf_counter)

    def report(self) -> RequestReport:
        """Stage 1's data."""
        raw = self.frame.encode()
        cut = raw[:SHOWN_FRAME_BYTES].decode(errors="ignore")
        return RequestReport(
            transport=self.transport,
            frame=cut,
            truncated=len(raw) > SHOWN_FRAME_BYTES,
            num_bytes=len(raw),
            headers=list(self.headers),
            arrived_at=self.arrived_at.isoformat(),
            encrypted=self.encrypted,
        )


def shown_headers(raw: Iterable[tuple[bytes, bytes]]) -> tuple[Header, ...]:
    """The headers worth showing, from an ASGI scope's, and whether a credential came along (never which)."""
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in raw}
    shown = [Header(name, headers[name][:500]) for name in SHOWN_HEADERS if name in headers]
    if "authorization" in headers:
        shown.append(Header("authorization", "(an API key, not shown)"))
    if "cookie" in headers:
        shown.append(Header("cookie", "(a session, not shown)"))
    return tuple(shown)
