"""`manage.py serve`: the whole service in one process and an engine child for each checkpoint."""

from __future__ import annotations

import asyncio
import logging
import signal
from functools import partial
from typing import Any

# daphne installs its reactor when it is imported and must come before anything else of Twisted.
from daphne.server import Server, twisted_loop  # isort: skip

from channels.routing import get_default_application
from daphne.endpoints import build_endpoint_description_strings
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from twisted.internet import reactor

from inference.process import EngineGone
from webtrace.api.hub import Hub
from webtrace.dispatch import workers
from webtrace.dispatch.sweep import sweep_and_tell
from webtrace.worker.runner import Runner
from webtrace.worker.service import make_runners, work

logger = logging.getLogger(__name__)

CLOSE_FRAMES_S = 0.2  # for the close frames of the sockets to leave


class Command(BaseCommand):
    help = "Serve the site, the API and the model: web server, worker and engine, on PORT (8000)."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="Address to listen on; 0.0.0.0 for all.")
        parser.add_argument("--port", type=int, default=settings.PORT, help="0 takes any free port.")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            runners = make_runners()
        except ValueError as problem:
            raise CommandError(str(problem)) from problem
        workers.stop_dead_neighbours()
        service = _Service(runners, self)
        service.server = server = Server(
            application=get_default_application(),
            endpoints=build_endpoint_description_strings(host=options["host"], port=options["port"]),
            signal_handlers=False,  # ours close the sockets before the server does
            ready_callable=service.begin,
            server_name="webtrace",
        )
        server.run()
        _end_tasks()
        if not server.listening_addresses:
            raise CommandError(
                f"Port {options['port']} of {options['host']} cannot be listened on: another program has it, or it "
                "is not allowed. Choose another with PORT=…"
            )
        if service.problem is not None:
            raise CommandError(service.problem)


class _Service:
    """What runs on the server's event loop beside the server."""

    def __init__(self, runners: list[Runner], command: BaseCommand) -> None:
        self._runners = runners
        self._command = command
        self.server: Server | None = None
        self.problem: str | None = None

    def begin(self) -> None:
        """Called once the server listens, before the loop runs."""
        if self.server is None or not self.server.listening_addresses:
            return
        host, port = self.server.listening_addresses[0]
        shown = f"[{host}]" if ":" in host else host
        self._command.stdout.write(f"Listening on http://{shown}:{port}/")
        self._command.stdout.flush()
        self._stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            twisted_loop.add_signal_handler(number, self._stop.set)
        self._main = twisted_loop.create_task(self._run())

    async def _run(self) -> None:
        """Work until told to stop; then close sockets, end responses, stop the engine, and the server last."""
        try:
            Hub.current()
            await sweep_and_tell()
            await work(self._runners, self._stop)
        except EngineGone as problem:
            self.problem = str(problem)
        except Exception:
            logger.exception("The service failed.")
            self.problem = "The service failed; the reason is in the log above."
        try:
            await Hub.current().go_away()
            await asyncio.sleep(CLOSE_FRAMES_S)
        except Exception:
            logger.exception("The sockets could not be closed in good order.")
        reactor.callLater(0, partial(reactor.stop))


def _end_tasks() -> None:
    """Let what still hangs on the stopped loop (sockets that never answered) end: the interpreter can crash on it."""
    tasks = asyncio.all_tasks(twisted_loop)
    for task in tasks:
        task.cancel()
    twisted_loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    twisted_loop.run_until_complete(twisted_loop.shutdown_asyncgens())
