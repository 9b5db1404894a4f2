"""Every tensor of a view is made where the model is. No accelerator is needed to see that: torch is told to make what
names no device on one that holds no numbers, which can neither be mixed with others nor read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from inference.engine import Engine
from inference.query import parse_query
from inference.views import VIEWS, Trace
from tests.inference.tiny import request, run, tiny_engine

PROMPT = [(7 * i + 3) % 250 for i in range(140)]
ASKED: dict[str, dict[str, Any]] = {
    "ablation": {"heads": "0:1", "everywhere": True},
    "contextual": {"position": 3},
    "scores": {"key": 3},
}
ON_THE_CPU = {"positions", "what_if"}  # a few angles, and the sampler


def trace_of(engine: Engine, name: str) -> Trace:
    found = engine.scheduler.find(name)
    assert found is not None
    memory = engine.decoder, engine.cache, engine.residuals, found.blocks
    return Trace(*memory, found.token_ids, found.num_prompt_tokens, found.num_computed)


@pytest.mark.parametrize("slug", sorted(VIEWS.keys() - ON_THE_CPU))
def test_a_view_makes_its_tensors_where_the_model_is(slug: str) -> None:
    engine = tiny_engine()
    run(engine, request("one", PROMPT, max_tokens=4), request("other", PROMPT[:30], max_tokens=3))
    trace = replace(trace_of(engine, "one"), other=trace_of(engine, "other"))
    query = parse_query(slug, ASKED.get(slug, {}))
    expected = VIEWS[slug](trace, query).to_bytes()
    with torch.device("meta"):
        found = VIEWS[slug](trace, query).to_bytes()
    assert found == expected
