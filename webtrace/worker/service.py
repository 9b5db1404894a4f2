"""Whole workers as `serve` and `runworker` start them, one for each checkpoint: runner, channels, engine."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from channels.layers import get_channel_layer
from channels.worker import Worker as ChannelsWorker

from inference.process import EngineProcess
from inference.settings import EngineSettings
from inference.text import Tokenizer
from webtrace.dispatch import bell
from webtrace.dispatch.sweep import sweep_forever
from webtrace.worker.consumer import InferenceConsumer
from webtrace.worker.runner import Runner

logger = logging.getLogger(__name__)

LISTEN_AGAIN_S = 1.0


def make_runners() -> list[Runner]:
    """A runner for each checkpoint that the environment names, the preferred one first.

    Raises ValueError with what is wrong.
    """
    everyone = EngineSettings.all_from_environment()
    return [_make_runner(settings, place) for place, settings in enumerate(everyone)]


def _make_runner(settings: EngineSettings, place: int) -> Runner:
    try:
        tokenizer = Tokenizer.load(settings.model, settings.cache)
    except (ValueError, OSError) as problem:
        raise ValueError(f"The checkpoint {settings.model} cannot be read: {problem}") from problem

    async def launch() -> EngineProcess:
        return await EngineProcess.start(settings)

    return Runner(launch, tokenizer, place)


async def work(runners: Sequence[Runner], stop: asyncio.Event) -> None:
    """Listen and work until `stop` is set, then leave in good order. Raises EngineGone if an engine never comes up."""
    lives = (life for runner in runners for life in (_listen(runner), runner.run()))
    working = asyncio.gather(sweep_forever(), *lives)
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    await asyncio.gather(*(runner.stop() for runner in runners))
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
