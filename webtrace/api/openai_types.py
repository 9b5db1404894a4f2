"""The shapes of OpenAI's chat completions, as far as they are served here, and how they map to our own."""

from __future__ import annotations

import math
from typing import Any, Literal

import msgspec

from inference.messages import AskedSampling
from webtrace.client_events import InputMessage, Role

FinishReason = Literal["stop", "length", "content_filter"]
FINISH: dict[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "refusal": "content_filter",
    "content_filter": "content_filter",
}
MAX_TOP_LOGPROBS = 10


class TextPart(msgspec.Struct, frozen=True, tag="text", tag_field="type"):
    text: str


class ChatMessage(msgspec.Struct, frozen=True):
    role: Role
    content: str | list[TextPart] | None = None
    name: str | None = None

    def as_input(self) -> InputMessage:
        if isinstance(self.content, list):
            return InputMessage(self.role, "".join(part.text for part in self.content))
        return InputMessage(self.role, self.content or "")


class StreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool = False


class ResponseFormat(msgspec.Struct, frozen=True):
    type: Literal["text"]


class ChatRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`top_k`, `min_p` and `repetition_penalty` are our own additions. `user`, `metadata` and `store` change nothing:
    nothing is kept for distillation, and limits are the key's."""

    messages: list[ChatMessage]
    model: str = "auto"
    stream: bool = False
    stream_options: StreamOptions | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stop: str | list[str] | None = None
    logit_bias: dict[int, float] | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    n: Literal[1] | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    response_format: ResponseFormat | None = None
    user: str | None = None
    metadata: dict[str, str] | None = None
    store: bool | None = None

    @property
    def sampling(self) -> AskedSampling:
        return AskedSampling(
            logit_bias=self.logit_bias,
            repetition_penalty=self.repetition_penalty,
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            min_p=self.min_p,
            seed=self.seed,
            max_tokens=self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens,
            stop=[self.stop] if isinstance(self.stop, str) else self.stop,
        )


def token_logprobs(step: dict[str, Any], top: int) -> dict[str, Any]:
    """One generated token as OpenAI's logprobs entry. The values are the model's own, before temperature and
    filters; `bytes` is null because a token's text may stand for part of a character."""
    alternatives = [
        {"token": text, "logprob": math.log(raw) if raw > 0 else -9999.0, "bytes": None}
        for _, text, _, raw, _ in step["candidates"][:top]
    ]
    return {
        "token": step["token_text"],
        "logprob": -9999.0 if step["raw_logprob"] is None else step["raw_logprob"],
        "bytes": None,
        "top_logprobs": alternatives,
    }
