"""Where the channel layer's rings reach a worker. Handlers hand work over and return: a channel waits for each."""

from __future__ import annotations

import logging
from typing import Any
from uuid import UUID

from channels.consumer import AsyncConsumer

from webtrace.dispatch import bell
from webtrace.worker.runner import Runner
from webtrace.worker.views import ViewRequest

logger = logging.getLogger(__name__)


class InferenceConsumer(AsyncConsumer):  # type: ignore[misc]
    """Listens on the channel all workers share and on the worker's own."""

    channel_layer_alias = "none"  # messages come through the Worker that runs this consumer

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    async def dispatch(self, message: dict[str, Any]) -> None:
        """A message that cannot be handled is logged: an exception would leave the rest of the queue unread."""
        try:
            await super().dispatch(message)
        except Exception:
            logger.exception("A message of type %r could not be handled.", message.get("type"))

    async def job_ring(self, message: dict[str, Any]) -> None:
        chosen = self.scope["channel"] != bell.SHARED
        self._runner.ring(UUID(message["response_id"]), chosen=chosen)

    async def job_cancel(self, message: dict[str, Any]) -> None:
        self._runner.cancel(UUID(message["response_id"]))

    async def job_continue(self, message: dict[str, Any]) -> None:
        self._runner.go_on(UUID(message["response_id"]))

    async def view_request(self, message: dict[str, Any]) -> None:
        self._runner.view(
            ViewRequest(message["request_key"], UUID(message["response_id"]), message["slug"], message["query"])
        )
