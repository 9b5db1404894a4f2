"""What is known of one answer without asking the page or a view: by arithmetic, by the running model, by the tables."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import torch
from torch import Tensor

from inference.checkpoint import load_checkpoint
from inference.classifier import Classifier
from inference.encoder import Encoder
from inference.model.decoder import Decoder
from tests.browser.independent import Pass, Weights, forward
from tests.browser.visit import Journey
from tests.inference.sequences import new_sequence
from tests.service.site import ROOT, Site

PROMPT = "Tell me a political joke"
REFERENCE: dict[str, Any] = json.loads((ROOT / "tests" / "reference" / "reference.json").read_text())["cases"][0]
LAYER, HEAD = 14, 4


def model_of(site: Site) -> Path:
    """The checkpoint of a site."""
    return Path(site.environment["WEBTRACE_DATA"]) / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"


@dataclass
class Captured:
    """The attention weights of one layer as the running attention had them: position -> [heads, keys]."""

    rows: dict[int, Tensor] = field(default_factory=dict)

    def weights(self, layer: int, start: int, weights: Tensor) -> None:
        if layer == LAYER:
            for offset in range(weights.shape[1]):
                self.rows[start + offset] = weights[:, offset, : start + offset + 1].clone()


@dataclass(frozen=True)
class Run:
    """The same tokens through a decoder of the same kernel in this process, in the engine's cuts."""

    fingerprint: str
    captured: Captured
    logits: list[Tensor]
    """[vocabulary] of every step."""

    @classmethod
    def of(cls, model: Path, kernel: str, prompt: Sequence[int], answer: Sequence[int]) -> Run:
        decoder = Decoder.load(load_checkpoint(model), kernel=kernel)
        captured, sequence = Captured(), new_sequence(decoder)
        logits = [sequence.feed(prompt, captured)]
        logits += [sequence.feed([token], captured) for token in answer[:-1]]
        return cls(decoder.fingerprint, captured, logits)


@dataclass(frozen=True)
class Stored:
    """What the database holds, read past the service."""

    token_ids: list[int]
    num_prompt_tokens: int
    queue_ms: float
    resources: dict[str, float]
    text: str
    messages: list[str]
    """Contents of the conversation's messages, in order."""

    @classmethod
    def of(cls, site: Site, response_id: str) -> Stored:
        path = Path(site.environment["WEBTRACE_DATA"]) / "webtrace.sqlite3"
        connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
        ids, num_prompt, queue_ms, resources, text, conversation = connection.execute(
            "SELECT token_ids, num_prompt_tokens, queue_ms, resources, text, conversation_id"
            " FROM conversations_response WHERE id = ?",
            [UUID(response_id).hex],
        ).fetchone()
        messages = connection.execute(
            "SELECT content FROM conversations_message WHERE conversation_id = ? ORDER BY created_at", [conversation]
        ).fetchall()
        connection.close()
        return cls(
            json.loads(ids), num_prompt, queue_ms, json.loads(resources), text, [content for (content,) in messages]
        )


@dataclass(frozen=True)
class Known:
    """Everything an expectation may draw on."""

    journey: Journey
    kernel: str
    remaining: int  # answers the guest may still ask for, as the service says afterwards
    stored: Stored
    weights: Weights
    exact: Pass
    run: Run
    models: Path

    @classmethod
    def of(cls, journey: Journey, site: Site, weights: Weights) -> Known:
        model = model_of(site)
        stored = Stored.of(site, journey.response["id"])
        prompt, answer = stored.token_ids[: stored.num_prompt_tokens], stored.token_ids[stored.num_prompt_tokens :]
        routing = next(one for one in journey.of_type("trace.stage") if one["stage"] == "routing")
        kernel = next(worker["kernel"] for worker in routing["data"]["workers"] if worker["chosen"])
        return cls(
            journey=journey,
            kernel=kernel,
            remaining=journey.get("me")["limit"]["remaining"],
            stored=stored,
            weights=weights,
            exact=forward(weights, stored.token_ids[:-1], LAYER),
            run=Run.of(model, kernel, prompt, answer),
            models=model.parent,
        )

    @property
    def prompt(self) -> list[int]:
        return self.stored.token_ids[: self.stored.num_prompt_tokens]

    @property
    def answer(self) -> list[int]:
        return self.stored.token_ids[self.stored.num_prompt_tokens :]

    def logits(self, step: int) -> np.ndarray:
        """Float64 logits [vocabulary] of a step, from the independent pass."""
        row: np.ndarray = self.exact.logits[len(self.prompt) - 1 + step]
        return row

    def run_logits(self, step: int) -> np.ndarray:
        """Those of the same kernel, [vocabulary]."""
        row: np.ndarray = self.run.logits[step].double().numpy()
        return row

    def safety_scores(self, text: str) -> dict[str, float]:
        """The safety heads on a short text."""
        heads = Classifier.load(ROOT / "webtrace" / "safety" / "heads" / "safety.safetensors")
        encoder = Encoder.load(self.models / "all-MiniLM-L6-v2")
        with torch.inference_mode():
            return heads.named_scores(encoder.layer_means([text]))[0]
