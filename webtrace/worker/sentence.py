"""The view `sentence`: the user's message as retrieval would compare it, by the sentence encoder beside the model."""

from __future__ import annotations

import json
from uuid import UUID

import numpy as np
import safetensors.numpy

from inference.settings import EngineSettings
from webtrace.running.engine import Engine
from webtrace.worker.user_message import user_message


async def sentence(response_id: UUID, engine: Engine) -> bytes:
    """vector [384], of length 1. Raises QueryError where no message is stored, EngineLost, EngineFailed."""
    text = await user_message(response_id)
    (embedding,) = await engine.embed([text])
    info = {
        "slug": "sentence",
        "shapes": {"vector": [len(embedding)]},
        "encoder": EngineSettings.from_environment().encoder.name,
        "num_characters": len(text),
    }
    packed: bytes = safetensors.numpy.save({"vector": np.array(embedding, np.float32)}, {"view": json.dumps(info)})
    return packed
