"""An engine that computes nothing: it speaks given tokens at a given rate, for tests of page and service.

Same messages as the real one, no torch. Every number it reports is made up, and its model's name says so.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from time import monotonic, sleep
from typing import Any

from inference.answer import Answer
from inference.messages import (
    Candidate,
    Continue,
    Embed,
    Embedded,
    Ended,
    EngineFinish,
    FilterName,
    FilterResult,
    FromEngine,
    Generate,
    Held,
    Judge,
    Judged,
    Ledger,
    Prefilled,
    Ready,
    StageTime,
    Started,
    Step,
    Steps,
    ViewReply,
    ViewRequest,
)
from inference.settings import EngineSettings
from inference.stages import MODEL_STAGES
from inference.text import Tokenizer

NAME = "fake"
BLOCK_SIZE, CUT, NUM_BLOCKS = 64, 128, 1024
CONTEXT_LENGTH = 8192
WIDTH = 384  # of an embedding
LABELS = ("ordinary_humour", "targeted_harassment", "incitement_or_threat", "other")
LONGEST_NAP_S = 0.02  # so that messages are heard between two slow tokens
PROBABILITY = 0.5  # of every spoken token


@dataclass(eq=False)
class _Speech:
    """One response being spoken."""

    request: Generate
    answer: Answer
    due: float  # when its next token comes
    breakpoints: frozenset[int] = frozenset()
    is_held: bool = False
    started: bool = False


class FakeEngine:
    def __init__(self, tokenizer: Tokenizer, text: str, rate: float, name: str = NAME) -> None:
        """Speaks `text` and then the end token, `rate` tokens a second."""
        self._name = name
        self._tokenizer = tokenizer
        self._script = [*tokenizer.encode(text), *tokenizer.end_ids[:1]]
        self._pause = 1 / rate
        self._speeches: list[_Speech] = []
        self._outbox: deque[FromEngine] = deque()

    @classmethod
    def load(cls, settings: EngineSettings) -> FakeEngine:
        tokenizer = Tokenizer.load(settings.model, settings.cache)
        name = f"{NAME}@{settings.kernel}" if settings.kernel_in_name else NAME
        return cls(tokenizer, settings.fake_text, settings.fake_rate, name)

    def ready(self) -> Ready:
        dimensions = {"n_layers": 30, "n_heads": 9, "n_kv_heads": 3, "head_width": 64, "width": 576}
        dimensions["feed_forward_width"] = 1536
        kinds = {"score_divisor": 8.0, "windows": [None] * 30, "rotates": [True] * 30}
        sizes = {"vocabulary": len(self._tokenizer), "context_length": CONTEXT_LENGTH, "num_parameters": 0}
        return Ready(
            fingerprint=self._name,
            model={"name": self._name, "architecture": NAME, **dimensions, **kinds, **sizes, "sampling": {}},
            device=NAME,
            kernel=NAME,
            threads=0,
            num_blocks=NUM_BLOCKS,
            block_size=BLOCK_SIZE,
            cut=CUT,
            safety=_fake_card(),
        )

    @property
    def has_work(self) -> bool:
        return bool(self._outbox) or any(not speech.is_held for speech in self._speeches)

    def submit(self, request: Generate) -> None:
        answer = Answer(self._tokenizer, request.stop_token_ids, request.sampling.stop)
        self._speeches.append(_Speech(request, answer, monotonic(), frozenset(request.breakpoints)))

    def proceed(self, request: Continue) -> None:
        for speech in self._speeches:
            if speech.request.response_id == request.response_id and speech.is_held:
                speech.breakpoints, speech.is_held = frozenset(request.breakpoints), False
                speech.due = monotonic()

    def cancel(self, response_id: str) -> None:
        for speech in [speech for speech in self._speeches if speech.request.response_id == response_id]:
            self._end(speech, "cancelled")

    def step(self) -> list[FromEngine]:
        """The tokens that are due; naps a little when none is."""
        going = [speech for speech in self._speeches if not speech.is_held]
        wait = min((speech.due for speech in going), default=0.0) - monotonic()
        if wait > 0 and not self._outbox:
            sleep(min(wait, LONGEST_NAP_S))
        now = monotonic()
        speaking = [speech for speech in going if speech.due <= now]
        beginnings = [message for speech in speaking if not speech.started for message in self._begin(speech)]
        items = [self._speak(speech) for speech in speaking]
        steps = [Steps(items, len(self._speeches), 0, NUM_BLOCKS)] if items else []
        ends = list(self._outbox)
        self._outbox.clear()
        return [*beginnings, *steps, *ends]

    def view(self, request: ViewRequest, pause: Callable[[], None]) -> ViewReply:
        return ViewReply(request.request_id, error="The fake engine holds no tensors.")

    def is_quick(self, request: ViewRequest) -> bool:
        return True

    def embed(self, request: Embed) -> Embedded:
        return Embedded(request.request_id, [_fake_vector(text) for text in request.texts])

    def judge(self, request: Judge) -> Judged:
        scores = {label: 0.97 if label == "other" else 0.01 for label in LABELS}
        return Judged(request.request_id, [scores for _ in request.texts])

    def _begin(self, speech: _Speech) -> list[FromEngine]:
        speech.started = True
        request = speech.request
        num_prompt = len(request.token_ids)
        logits = {"top": [(self._script[0], 1.0)], "bottom": [], "min": 0.0, "max": 1.0, "mean": 0.0, "std": 0.0}
        return [
            Started(
                response_id=request.response_id,
                queue_ms=0.0,
                batch_size=len(self._speeches),
                num_prefix_tokens=0,
                decoded_prefix=[],
                max_tokens=request.sampling.max_tokens,
                recorded=False,
            ),
            Prefilled(
                response_id=request.response_id,
                num_computed=num_prompt,
                num_reused=0,
                num_cuts=-(-num_prompt // CUT),
                duration_ms=0.0,
                stages=[StageTime(stage, 0.0, 0.0, 0) for stage in MODEL_STAGES],
                logits=logits,
            ),
        ]

    def _speak(self, speech: _Speech) -> Step:
        answer = speech.answer
        number = len(answer.token_ids)
        given = speech.request.given
        token = given[number] if number < len(given) else self._script[number]
        text = answer.push(token)
        speech.due += self._pause
        step = Step(
            response_id=speech.request.response_id,
            step=number,
            token=token,
            token_text=self._tokenizer.token_text(token),
            text=text,
            held_bytes=answer.num_held_bytes,
            raw_logprob=math.log(PROBABILITY),
            logprob=math.log(PROBABILITY),
            rank=0,
            entropy=math.log(2),
            candidates=self._candidates(token),
            ledger=_fake_ledger(speech.request, len(self._tokenizer)),
            num_blocks=-(-(len(speech.request.token_ids) + number) // BLOCK_SIZE),
            forward_ms=1e3 * self._pause,
            sample_ms=0.0,
            batch_size=len(self._speeches),
            given=number < len(given),
        )
        if answer.stop is not None or number + 1 == len(self._script):
            self._end(speech, "stop")
        elif number + 1 == speech.request.sampling.max_tokens:
            self._end(speech, "length")
        elif number in speech.breakpoints:
            speech.is_held = True
            self._outbox.append(Held(speech.request.response_id, number))
        return step

    def _candidates(self, token: int) -> list[Candidate]:
        """The token, and the ids after it, each half as probable as the one before."""
        ids = [(token + offset) % len(self._tokenizer) for offset in range(10)]
        shares = [PROBABILITY / 2**place for place in range(10)]
        return [
            Candidate(i, self._tokenizer.token_text(i), math.log(p), p, p) for i, p in zip(ids, shares, strict=True)
        ]

    def _end(self, speech: _Speech, finish: EngineFinish) -> None:
        self._speeches.remove(speech)
        self._outbox.append(
            Ended(
                response_id=speech.request.response_id,
                finish=finish,
                text=speech.answer.flush(),
                num_prompt_tokens=len(speech.request.token_ids),
                num_prefix_tokens=0,
                token_ids=speech.answer.token_ids,
                stop=speech.answer.stop,
            )
        )


def _fake_ledger(request: Generate, vocabulary: int) -> Ledger:
    sampling = request.sampling
    values: dict[FilterName, Any] = {
        "logit_bias": sampling.logit_bias,
        "penalties": {
            "repetition": sampling.repetition_penalty,
            "presence": sampling.presence_penalty,
            "frequency": sampling.frequency_penalty,
        },
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "min_p": sampling.min_p,
    }
    filters = [FilterResult(name, value, False, vocabulary, 0.0) for name, value in values.items()]
    return Ledger(filters=filters, draw=0.25, greedy=sampling.temperature == 0)


def _fake_card() -> dict[str, Any]:
    threshold = {"caution": 0.5, "act": 0.8}
    harmful = dict.fromkeys(LABELS[1:3], threshold)
    return {
        "technique": NAME,
        "version": NAME,
        "labels": list(LABELS),
        "layers": [],
        "thresholds": harmful,
        "total": threshold,
    }


def _fake_vector(text: str) -> list[float]:
    """A unit vector that depends on the text alone."""
    digest = blake2b(text.encode()).digest()
    vector = [digest[i % len(digest)] - 127.5 for i in range(WIDTH)]
    length = math.sqrt(sum(x * x for x in vector))
    return [x / length for x in vector]
