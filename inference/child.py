"""The engine process itself: `python -m inference.child`, messages in on stdin, messages out on stdout.

A thread reads; the main thread steps. Generation comes first: of everything else one piece is done between two steps.
A judgement or an embedding is one piece, and never waits for a view: answers that run may wait for it. A view has as
many pieces as it needs to hold up no step for longer than a step; quick views do not wait for long ones.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import BinaryIO, Protocol

from inference.messages import (
    Broken,
    Cancel,
    Continue,
    Embed,
    Embedded,
    FromEngine,
    Generate,
    Judge,
    Judged,
    Ready,
    Shutdown,
    ToEngine,
    ViewReply,
    ViewRequest,
)
from inference.pipe import encode, read_request
from inference.settings import EngineSettings

logger = logging.getLogger(__name__)


class Machine(Protocol):
    """What the loop drives: the engine on a real model, or the fake one."""

    def ready(self) -> Ready: ...
    @property
    def has_work(self) -> bool: ...
    def submit(self, request: Generate) -> None: ...
    def proceed(self, request: Continue) -> None: ...
    def cancel(self, response_id: str) -> None: ...
    def step(self) -> list[FromEngine]: ...
    def view(self, request: ViewRequest, pause: Callable[[], None]) -> ViewReply: ...
    def is_quick(self, request: ViewRequest) -> bool: ...
    def embed(self, request: Embed) -> Embedded: ...
    def judge(self, request: Judge) -> Judged: ...


class Loop:
    """Serves one machine until told to shut down."""

    def __init__(self, machine: Machine, inbox: SimpleQueue[ToEngine], pipe: BinaryIO) -> None:
        self._machine = machine
        self._inbox = inbox
        self._pipe = pipe
        self._texts: deque[Embed | Judge] = deque()
        self._views: deque[ViewRequest] = deque()
        self._stopping = False

    def run(self) -> None:
        while not self._stopping:
            self._take_messages(wait=not (self._texts or self._views or self._machine.has_work))
            if self._texts:
                self._read_text()
            elif self._views:
                self._write([self._machine.view(self._views.popleft(), self._pause)])
            self._step()

    def _take_messages(self, *, wait: bool = False) -> None:
        """Takes all that has come; with `wait` at least one."""
        while wait or not self._inbox.empty():
            wait = False
            message = self._inbox.get()
            match message:
                case Generate():
                    self._machine.submit(message)
                case Continue():
                    self._machine.proceed(message)
                case Cancel():
                    self._machine.cancel(message.response_id)
                case Shutdown():
                    self._stopping = True
                case ViewRequest():
                    self._views.append(message)
                case Embed() | Judge():
                    self._texts.append(message)

    def _step(self) -> None:
        if self._machine.has_work:
            self._write(self._machine.step())

    def _pause(self) -> None:
        """Between two pieces of a view: let generation go on, and quick views past a long one."""
        quick = next((view for view in self._views if self._machine.is_quick(view)), None)
        if quick is not None:
            self._views.remove(quick)
            self._write([self._machine.view(quick, self._breathe)])
        self._breathe()

    def _breathe(self) -> None:
        self._take_messages()
        if self._texts:
            self._read_text()
        self._step()

    def _read_text(self) -> None:
        message = self._texts.popleft()
        reply = self._machine.embed(message) if isinstance(message, Embed) else self._machine.judge(message)
        self._write([reply])

    def _write(self, messages: list[FromEngine]) -> None:
        if messages:
            self._pipe.write(b"".join(map(encode, messages)))
            self._pipe.flush()


def build(settings: EngineSettings) -> Machine:
    """Loads what the settings name. torch is imported only for a real model."""
    if settings.engine == "fake":
        from inference.fake import FakeEngine

        return FakeEngine.load(settings)
    from inference.machine import load_machine

    return load_machine(settings)


def _read_forever(inbox: SimpleQueue[ToEngine]) -> None:
    """Fills the inbox. When the parent is gone there is nobody to work for: the process ends on the spot."""
    pipe = os.fdopen(os.dup(0), "rb")  # not sys.stdin, which the interpreter wants to lock when it ends
    while (message := read_request(pipe)) is not None:
        inbox.put(message)
    os._exit(0)


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="engine %(levelname)s %(message)s")
    pipe = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints must not end up between two frames
    inbox: SimpleQueue[ToEngine] = SimpleQueue()
    threading.Thread(target=_read_forever, args=(inbox,), daemon=True).start()
    try:
        machine = build(EngineSettings.from_environment())
    except Exception as error:  # every failure to start becomes one sentence for the parent
        logger.exception("The engine could not start.")
        pipe.write(encode(Broken(str(error) or type(error).__name__)))
        pipe.flush()
        return 1
    pipe.write(encode(machine.ready()))
    pipe.flush()
    Loop(machine, inbox, pipe).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
