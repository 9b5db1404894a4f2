"""The engine as a child process, seen from the worker. No torch here.

The child lives in a process group of its own, so that an interrupt typed at the terminal reaches the parent alone,
which then decides. It dies with its parent: its standard input closes. Its death is seen at once: its standard
output closes.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import suppress

from inference.messages import Broken, FromEngine, Ready, Shutdown, ToEngine
from inference.pipe import encode, read_reply
from inference.settings import CHECKOUT, EngineSettings

STOP_TIMEOUT_S = 5.0


class EngineGone(RuntimeError):
    """The engine process has ended, or never came up; the message says why."""


class EngineProcess:
    """One child. Make it with `start`; when it has died, make another."""

    def __init__(self, child: asyncio.subprocess.Process) -> None:
        assert child.stdin is not None
        assert child.stdout is not None
        self._child = child
        self._stdin, self._stdout = child.stdin, child.stdout
        self._ready: Ready | None = None
        self._broken: str | None = None

    @classmethod
    async def start(cls, settings: EngineSettings) -> EngineProcess:
        """Starts the child and returns at once; loading takes a while, see `ready`."""
        environment = {"OMP_WAIT_POLICY": "PASSIVE", **os.environ, **settings.to_environment()}
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "inference.child"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            cwd=CHECKOUT,
            env=environment,
            start_new_session=True,
        )
        return cls(child)

    @property
    def pid(self) -> int:
        return self._child.pid

    async def ready(self) -> Ready:
        """Waits until the checkpoint is loaded. Raises EngineGone with what to do about it."""
        if self._ready is None:
            message = await read_reply(self._stdout)
            if isinstance(message, Broken):
                self._broken = message.reason
            if not isinstance(message, Ready):
                await self._child.wait()
                raise EngineGone(self.exit_reason)
            self._ready = message
        return self._ready

    async def send(self, message: ToEngine) -> None:
        """Raises EngineGone."""
        if self._child.returncode is not None:
            raise EngineGone(self.exit_reason)
        try:
            self._stdin.write(encode(message))
            await self._stdin.drain()
        except (ConnectionError, RuntimeError) as error:
            raise EngineGone(self.exit_reason) from error

    async def __aiter__(self) -> AsyncIterator[FromEngine]:
        """All messages after `ready`, until the child is gone; `exit_reason` then says why."""
        while (message := await read_reply(self._stdout)) is not None:
            yield message
        await self._child.wait()

    @property
    def exit_reason(self) -> str:
        """Why the child ended, for a person to read."""
        code = self._child.returncode
        if self._broken is not None:
            return self._broken
        if code is None:
            return "The engine closed its pipe."
        if code < 0:
            return f"The engine was killed by signal {signal.Signals(-code).name}."
        return f"The engine ended with status {code}."

    async def stop(self) -> None:
        """Asks the child to end, and ends it after a few seconds if it does not. Harmless on a dead child."""
        with suppress(EngineGone):
            await self.send(Shutdown())
        self._stdin.close()
        drain = asyncio.create_task(self._drain())
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await self._child.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                self._child.kill()
            await self._child.wait()
        finally:
            drain.cancel()

    async def _drain(self) -> None:
        """Reads on, lest a child with much to say never comes to hear that it should end."""
        with suppress(RuntimeError):  # somebody else is reading
            while await self._stdout.read(1 << 16):
                pass
