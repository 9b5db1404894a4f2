"""The view `training`: one real step of training on a copy of the served checkpoint, in a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import sys

import numpy as np
import safetensors.numpy
from django.conf import settings

from webtrace.worker.engine import EngineFailed

LIMIT_S = 240
NICE = 15  # answers come first

_lesson: asyncio.Task[bytes] | None = None


async def training() -> bytes:
    """attention, feed_forward [n_layers]: lengths of the gradients; the rest of inference.training's results beside.

    It is the same for everybody, so it runs once for a worker; whoever asks meanwhile waits for the same one. Raises
    EngineFailed.
    """
    global _lesson
    if _lesson is None or (_lesson.done() and (_lesson.cancelled() or _lesson.exception())):
        _lesson = asyncio.create_task(_run())
    return await asyncio.shield(_lesson)


async def _run() -> bytes:
    command = (sys.executable, "-m", "inference.training", settings.MODEL_PATH)
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, preexec_fn=lambda: os.nice(NICE), cwd=settings.BASE_DIR
    )
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
