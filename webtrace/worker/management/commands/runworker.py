"""`manage.py runworker inference`: a worker with its engine, beside any number of web processes and other workers."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from inference.process import EngineGone
from webtrace.dispatch import bell, workers
from webtrace.worker.service import make_runners, work


class Command(BaseCommand):
    help = "Compute responses: takes jobs from the shared channel and from this worker's own."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("channels", nargs="*", default=[bell.SHARED], choices=[bell.SHARED])

    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.REDIS_URL:
            raise CommandError(
                "runworker needs REDIS_URL: the in-memory channel layer does not reach other processes. "
                "Use `manage.py serve` for everything in one process."
            )
        try:
            workers.stop_dead_neighbours()
            asyncio.run(self._work())
        except (EngineGone, ValueError) as problem:
            raise CommandError(str(problem)) from problem

    async def _work(self) -> None:
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        runners = make_runners()
        for runner in runners:
            self.stdout.write(f"Worker {runner.worker_id} loads its engine.")
        await work(runners, stop)
