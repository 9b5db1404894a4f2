"""The connection under a socket, as daphne and Twisted see it: what ASGI has no words for."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

FRAMES_LEAVE_S = 0.2  # for what was just written to leave this machine


class WriteGate:
    """Closed while the transport holds more unsent bytes than it likes (twisted: 64 KiB).

    ASGI has no such signal and daphne's `send` never waits. But it is a `partial` over the connection's protocol,
    whose transport tells a registered push producer when to pause; this is that producer. Under another server the
    gate stays open, and that server's `send` has to wait by itself.
    """

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()

    def watch(self, send: Callable[[Any], Awaitable[None]]) -> None:
        """Listen to the transport behind an ASGI `send`, if it is daphne's."""
        protocol = next(iter(getattr(send, "args", ())), None)
        transport = getattr(protocol, "transport", None)
        if transport is None or not hasattr(transport, "registerProducer"):
            return
        transport.unregisterProducer()  # the HTTP channel's, which is done since the upgrade
        transport.registerProducer(self, True)

    async def wait(self) -> None:
        await self._open.wait()

    # twisted.internet.interfaces.IPushProducer

    def pauseProducing(self) -> None:
        self._open.clear()

    def resumeProducing(self) -> None:
        self._open.set()

    def stopProducing(self) -> None:
        self._open.set()


def answer_breaches(send: Callable[[Any], Awaitable[None]], most_bytes: int) -> None:
    """Have a frame of more than `most_bytes`, and every other breach of the protocol, answered by a close frame.

    Its code (1009 too big, 1007 no UTF-8, 1002 the rest) and reason say what was wrong, and what still comes in is
    dropped unread. autobahn's default cuts the connection without a word. Does nothing under another server.
    """
    protocol = next(iter(getattr(send, "args", ())), None)
    if protocol is None or not hasattr(protocol, "failByDrop"):
        return
    protocol.failByDrop = False
    protocol.maxFramePayloadSize = protocol.maxMessagePayloadSize = most_bytes


def send_close_frame(send: Callable[[Any], Awaitable[None]], code: int) -> bool:
    """Close with a code that autobahn keeps for itself (1012, 1013), if the connection behind `send` is daphne's.

    autobahn's public `sendClose` takes 1000 and 3000-4999 only, although servers may use the others too.
    """
    protocol = next(iter(getattr(send, "args", ())), None)
    if protocol is None or not hasattr(protocol, "sendCloseFrame"):
        return False
    protocol.sendCloseFrame(code=code, isReply=False)
    return True


def before_shutdown(farewell: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Have daphne wait for `farewell` when it is told to stop: by itself it drops its sockets without a word."""
    if "twisted.internet.reactor" not in sys.modules:
        return  # another server, or a test

    from twisted.internet import reactor
    from twisted.internet.defer import Deferred

    async def say_it() -> None:
        await farewell()
        await asyncio.sleep(FRAMES_LEAVE_S)

    def begin() -> Any:
        return Deferred.fromFuture(asyncio.ensure_future(say_it()))

    reactor.addSystemEventTrigger("before", "shutdown", begin)
