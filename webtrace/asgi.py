"""The ASGI application: HTTP through Django, the WebSocket through Channels."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any, cast

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webtrace.settings")

from django.core.asgi import get_asgi_application

django_application = get_asgi_application()  # loads the applications, which the imports below need

from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402
from django.urls import path, re_path  # noqa: E402

from webtrace.api.hub import Hub  # noqa: E402
from webtrace.api.socket import ClientSocket  # noqa: E402

if "daphne.server" in sys.modules:  # which serves this; before it listens
    from webtrace.ops.request_bodies import bound_bodies

    bound_bodies()


async def refuse(scope: dict[str, Any], receive: Any, send: Callable[[dict[str, Any]], Awaitable[None]]) -> None:
    """There is no socket here: the handshake is answered with 403."""
    await send({"type": "websocket.close"})


by_protocol = ProtocolTypeRouter(
    {
        "http": django_application,
        "websocket": URLRouter([path("ws/v1/", ClientSocket.as_asgi()), re_path("", cast(Any, refuse))]),
    }
)


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Everything that comes in. With the first of it the process's hub begins its work."""
    Hub.current()
    await by_protocol(scope, receive, send)
