"""A random decoder of a few small layers and a vocabulary of single bytes: an engine that runs in no time."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from inference.cache import KVCache, ResidualPool
from inference.checkpoint import Checkpoint, LayerKind, ModelConfig, Rotary
from inference.checkpoint.weights import Float32, FourBit
from inference.engine import Engine
from inference.fake import FakeEngine
from inference.messages import Ended, FromEngine, Generate, Held, Prefilled, Sampling, Started, Step, Steps
from inference.model.decoder import Decoder
from inference.text import Tokenizer
from inference.text.byte_level import BYTE_CHARACTERS, BYTE_LEVEL
from inference.text.vocabulary import Vocabulary

END = 256
CONFIG = ModelConfig(
    architecture="llama",
    layers=(LayerKind(Rotary(10000.0)),) * 2,
    n_heads=2,
    n_kv_heads=1,
    head_width=8,
    width=16,
    feed_forward_width=24,
    vocabulary=260,
    context_length=512,
    rms_epsilon=1e-5,
    tied_head=True,
    score_divisor=math.sqrt(8),
)


class RandomWeights:
    """The same random numbers for the same name every time; norms of ones."""

    def __init__(self, config: ModelConfig) -> None:
        self._shapes = config.tensor_shapes()

    def tensor(self, name: str) -> Float32:
        if name.endswith("norm"):
            return np.ones(self._shapes[name], dtype=np.float32)
        seed = np.frombuffer(name.encode(), dtype=np.uint8).tolist()
        weights: Float32 = np.random.default_rng(seed).normal(0, 0.6, self._shapes[name]).astype(np.float32)
        return weights

    def four_bit(self, name: str) -> FourBit | None:
        return None


def tiny_decoder(n_layers: int = CONFIG.n_layers) -> Decoder:
    """The same object for the same depth."""
    return decoder_of(replace(CONFIG, layers=CONFIG.layers[:1] * n_layers))


@functools.cache
def decoder_of(config: ModelConfig) -> Decoder:
    """Random weights in the shapes of the config; the same object for the same one."""
    checkpoint = Checkpoint(path=Path(__file__), name="tiny", config=config, source=RandomWeights(config))
    return Decoder.load(checkpoint, device="cpu", kernel="float32")


@functools.cache
def byte_tokenizer() -> Tokenizer:
    definition = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": BYTE_LEVEL,
        "model": {"type": "BPE", "vocab": {c: i for i, c in enumerate(BYTE_CHARACTERS)}, "merges": []},
    }
    control = {"<|end|>": END, "<|a|>": 257, "<|b|>": 258, "<|c|>": 259}
    return Tokenizer(Vocabulary(json.dumps(definition), control, [END], None, False, None))


def tiny_engine(
    num_blocks: int = 32,
    *,
    num_traced: int | None = None,
    num_aside: int = 0,
    max_running: int = 8,
    n_layers: int = CONFIG.n_layers,
) -> Engine:
    decoder = tiny_decoder(n_layers)
    residuals = ResidualPool(decoder.config, num_blocks if num_traced is None else num_traced)
    cache = KVCache(decoder.config, num_blocks)
    return Engine(decoder, byte_tokenizer(), cache, residuals, num_aside=num_aside, max_running=max_running)


def request(
    name: str,
    prompt: str | list[int],
    *,
    owner: str = "o",
    record: bool = True,
    breakpoints: Iterable[int] = (),
    given: Iterable[int] = (),
    **sampling: Any,
) -> Generate:
    """A request with seed 1 and 8 tokens unless told otherwise."""
    token_ids = list(prompt.encode()) if isinstance(prompt, str) else prompt
    chosen = Sampling(**{"seed": 1, "max_tokens": 8, "temperature": 1.0, **sampling})
    return Generate(name, token_ids, chosen, [END], owner, record, breakpoints=list(breakpoints), given=list(given))


@dataclass
class Outcome:
    """All messages of one response."""

    started: list[Started] = field(default_factory=list)
    prefilled: list[Prefilled] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    held: list[int] = field(default_factory=list)
    ended: list[Ended] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(step.text for step in self.steps) + "".join(end.text for end in self.ended)

    @property
    def token_ids(self) -> list[int]:
        return [step.token for step in self.steps]

    @property
    def numbers(self) -> list[tuple[Any, ...]]:
        """What must not depend on the crowd, to the last bit."""
        return [(s.step, s.token, s.raw_logprob, s.logprob, s.entropy, s.candidates, s.ledger) for s in self.steps]

    @property
    def end(self) -> Ended:
        assert len(self.ended) == 1
        return self.ended[0]


def collect(messages: Iterable[FromEngine]) -> dict[str, Outcome]:
    outcomes: dict[str, Outcome] = {}
    for message in messages:
        match message:
            case Steps():
                for step in message.items:
                    outcomes.setdefault(step.response_id, Outcome()).steps.append(step)
            case Started():
                outcomes.setdefault(message.response_id, Outcome()).started.append(message)
            case Prefilled():
                outcomes.setdefault(message.response_id, Outcome()).prefilled.append(message)
            case Held():
                outcomes.setdefault(message.response_id, Outcome()).held.append(message.step)
            case Ended():
                outcomes.setdefault(message.response_id, Outcome()).ended.append(message)
    return outcomes


def drain(engine: Engine | FakeEngine) -> list[FromEngine]:
    """Everything an engine tells until nothing is left to do."""
    messages: list[FromEngine] = []
    while engine.has_work:
        messages += engine.step()
    return messages


def run(engine: Engine | FakeEngine, *requests: Generate) -> dict[str, Outcome]:
    """Submits all at once and steps until nothing is left to do."""
    for one in requests:
        engine.submit(one)
    return collect(drain(engine))


def alone(one: Generate) -> Outcome:
    """The same request in an engine of its own."""
    return run(tiny_engine(), one)[one.response_id]
