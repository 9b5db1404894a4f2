"""The view `sentence`: the user's message as retrieval would compare it, by the sentence encoder beside the model."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import UUID

import numpy as np
import safetensors.numpy
from channels.db import database_sync_to_async
from django.conf import settings

from inference.query import QueryError
from webtrace.conversations.models import Response
from webtrace.worker.engine import Engine


async def sentence(response_id: UUID, engine: Engine) -> bytes:
    """vector [384], of length 1. Raises QueryError where no message is stored, EngineLost, EngineFailed."""
    found = Response.objects.filter(pk=response_id).values_list("user_message__content", flat=True)
    text = await database_sync_to_async(found.first)()
    if not text:
        raise QueryError("response_id", "answers no stored message")
    (embedding,) = await engine.embed([text])
    info = {
        "slug": "sentence",
        "shapes": {"vector": [len(embedding)]},
        "encoder": Path(settings.ENCODER_PATH).name,
        "num_characters": len(text),
    }
    packed: bytes = safetensors.numpy.save({"vector": np.array(embedding, np.float32)}, {"view": json.dumps(info)})
    return packed
