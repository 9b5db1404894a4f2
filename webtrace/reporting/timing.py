"""One way to time and report every stage of a journey."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import msgspec

from webtrace.stages import BY_SLUG

# Takes the fields of one `trace.stage` event.
Emit = Callable[[dict[str, Any]], None]


class Account:
    """What one running stage has to say about itself; filled in before it ends."""

    def __init__(self) -> None:
        self.fields: dict[str, Any] = {}
        self.outcome: Literal["passed", "skipped", "ended_here"] = "passed"

    def say(self, *, input: str, output: str, data: msgspec.Struct, operation: str | None = None) -> None:
        """The lines of input, operation (null: as the catalogue has it) and output, and the stage's report."""
        self.fields = {"input": input, "operation": operation, "output": output, "data": msgspec.to_builtins(data)}


class Stages:
    """The stages of one request in one process, on one monotonic clock that starts at `started`."""

    def __init__(self, started: float, clock: Literal["web", "worker"], emit: Emit) -> None:
        self._started = started
        self._left_out_s = 0.0
        self._clock = clock
        self._emit = emit

    def elapsed_ms(self) -> float:
        return self.at_ms(time.perf_counter())

    def at_ms(self, moment: float) -> float:
        """A moment on this clock (`time.perf_counter`), counted from its start without what was left out before."""
        return (moment - self._started - self._left_out_s) * 1000

    def leave_out(self, seconds: float) -> None:
        """The clock stood still for so long just now."""
        self._left_out_s += seconds

    @property
    def left_out_ms(self) -> float:
        return self._left_out_s * 1000

    @contextmanager
    def run(self, slug: str) -> Iterator[Account]:
        """Time the block as this stage and report it at its end, however it ends, if it had something to say."""
        account = Account()
        started_ms = self.elapsed_ms()
        try:
            yield account
        except BaseException:
            account.outcome = "ended_here"
            raise
        finally:
            if account.fields:
                self.report(slug, account, started_ms, self.elapsed_ms() - started_ms)

    def report(self, slug: str, account: Account, started_ms: float | None, duration_ms: float | None) -> None:
        """Report a stage that was timed elsewhere."""
        operation = account.fields["operation"] or BY_SLUG[slug].operation
        self._emit(
            {
                "stage": slug,
                "clock": self._clock,
                "outcome": account.outcome,
                "started_ms": started_ms,
                "duration_ms": duration_ms,
                **account.fields,
                "operation": operation,
            }
        )
