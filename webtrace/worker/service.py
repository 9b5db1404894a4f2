"""A whole worker as `serve` and `runworker` start it: the runner, its channels, its engine."""

from __future__ import annotations

import asyncio
import logging

from channels.layers import get_channel_layer
from channels.worker import Worker as ChannelsWorker

from inference.process import EngineProcess
from inference.settings import EngineSettings
from inference.text import Tokenizer
from webtrace.dispatch import bell
from webtrace.worker.consumer import InferenceConsumer
from webtrace.worker.runner import Runner

logger = logging.getLogger(__name__)

LISTEN_AGAIN_S = 1.0


def make_runner() -> Runner:
    """A runner with the engine and tokenizer that the environment names. Raises ValueError with what is wrong."""
    settings = EngineSettings.from_environment()
    try:
        tokenizer = Tokenizer.load(settings.model, settings.text_cache)
    except (ValueError, OSError) as problem:
        raise ValueError(f"The checkpoint {settings.model} cannot be read: {problem}") from problem

    async def launch() -> EngineProcess:
        return await EngineProcess.start(settings)

    return Runner(launch, tokenizer)


async def work(runner: Runner, stop: asyncio.Event) -> None:
    """Listen and work until `stop` is set, then leave in good order. Raises EngineGone if no engine comes up."""
    working = asyncio.gather(_listen(runner), runner.run())
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    await runner.stop()
    if working.done():
        await working  # it only ends by itself with an exception
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)


async def _listen(runner: Runner) -> None:
    """Take rings off the channel layer for ever. A layer that fails is tried again: the sweep finds what was missed."""
    channels = [bell.SHARED, bell.own_channel(runner.worker_id)]
    while True:
        try:
            await ChannelsWorker(InferenceConsumer.as_asgi(runner=runner), channels, get_channel_layer()).arun()
        except Exception:
            logger.exception("The channel layer failed; it is tried again.")
        await asyncio.sleep(LISTEN_AGAIN_S)
