"""The view `training`: one real step of training on a copy of the served checkpoint, in a process of its own."""

from __future__ import annotations

import asyncio
import json
import sys

import numpy as np
import safetensors.numpy
from django.conf import settings

from inference.settings import EngineSettings
from webtrace.running.engine import EngineFailed

LIMIT_S = 240
MOST_WEIGHTS = 500_000_000  # in float32 with their gradients: 4 GB

_lessons: dict[str, asyncio.Task[bytes]] = {}


async def training(model: str, num_weights: int) -> bytes:
    """attention, feed_forward [n_layers]: lengths of the gradients; the rest of inference.training's results beside.

    It is the same for everybody, so it runs once for a model; whoever asks meanwhile waits for the same one. Raises
    EngineFailed.
    """
    if num_weights > MOST_WEIGHTS:
        gigabytes = 8 * num_weights / 1e9
        raise EngineFailed(
            f"a copy of {num_weights:,} weights with gradients would take {gigabytes:.0f} GB; at most"
            f" {MOST_WEIGHTS:,} are copied"
        )
    lesson = _lessons.get(model)
    if lesson is None or (lesson.done() and (lesson.cancelled() or lesson.exception())):
        lesson = _lessons[model] = asyncio.create_task(_run(model))
    return await asyncio.shield(lesson)


async def _run(model: str) -> bytes:
    served = EngineSettings.all_from_environment()
    checkpoint = next((one.model for one in served if one.model_name == model), served[0].model)
    command = (sys.executable, "-m", "inference.training", str(checkpoint))
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, cwd=settings.BASE_DIR)
    try:
        output, _ = await asyncio.wait_for(process.communicate(), LIMIT_S)
    except TimeoutError:
        raise EngineFailed(f"the training step took more than {LIMIT_S} seconds") from None
    finally:
        if process.returncode is None:
            process.kill()
    if process.returncode != 0:
        raise EngineFailed("the training step failed; its reason stands in the worker's log")
    result = json.loads(output)
    gradients = {name: np.array(values, np.float32) for name, values in result.pop("gradients").items()}
    info = {"slug": "training", "shapes": {name: list(one.shape) for name, one in gradients.items()}, **result}
    body: bytes = safetensors.numpy.save(gradients, {"view": json.dumps(info)})
    return body
