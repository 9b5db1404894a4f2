"""Sentence embeddings: all-MiniLM-L6-v2, a BERT encoder of six layers, computed here in float32.

A text becomes one unit vector. Every text is computed by itself, never padded beside others, so its vector
does not depend on what else is asked for in the same moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional

NUM_LAYERS = 6
NUM_HEADS = 12
WIDTH = 384
LAYER_NORM_EPSILON = 1e-12

WINDOW_TOKENS = 256
"""Tokens read in one pass, [CLS] and [SEP] included: the length this model was trained with."""
MAX_WINDOWS = 8
"""Windows one text may take; a longer text is an error, not a silent cut."""
BATCH_LIMIT = 8
"""Texts one call may bring, so that a call between two decoding steps stays short."""


@dataclass(frozen=True)
class _Affine:
    """A weight [out, in] and a bias [out]; for a layer norm both are [width]."""

    weight: Tensor
    bias: Tensor

    def project(self, states: Tensor) -> Tensor:
        """[positions, in] → [positions, out]"""
        return functional.linear(states, self.weight, self.bias)

    def normalise(self, states: Tensor) -> Tensor:
        """[positions, width] → the same shape, each row with mean 0 and variance 1, then scaled and shifted"""
        return functional.layer_norm(states, (WIDTH,), self.weight, self.bias, LAYER_NORM_EPSILON)


@dataclass(frozen=True)
class _Layer:
    query_key_value: _Affine
    attention_output: _Affine
    attention_norm: _Affine
    feed_forward_up: _Affine
    feed_forward_down: _Affine
    feed_forward_norm: _Affine

    def forward(self, states: Tensor) -> Tensor:
        """[positions, width] → [positions, width]. BERT normalises after each addition, not before."""
        query, key, value = (
            part.view(-1, NUM_HEADS, WIDTH // NUM_HEADS).transpose(0, 1)
            for part in self.query_key_value.project(states).chunk(3, dim=-1)
        )
        attended = functional.scaled_dot_product_attention(query[None], key[None], value[None])[0]
        joined = attended.transpose(0, 1).reshape(-1, WIDTH)
        states = self.attention_norm.normalise(states + self.attention_output.project(joined))
        inner = functional.gelu(self.feed_forward_up.project(states))
        return self.feed_forward_norm.normalise(states + self.feed_forward_down.project(inner))


class Encoder:
    """Turns texts into unit vectors of 384 numbers. Make one with `Encoder.load`."""

    def __init__(self, tensors: dict[str, Tensor], tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._words = tensors["embeddings.word_embeddings.weight"]
        # Every text is one segment, so the type embedding is the same row everywhere: add it once, here.
        self._positions = (
            tensors["embeddings.position_embeddings.weight"] + tensors["embeddings.token_type_embeddings.weight"][0]
        )
        self._norm = _affine(tensors, "embeddings.LayerNorm")
        self._layers = [_layer(tensors, f"encoder.layer.{index}") for index in range(NUM_LAYERS)]
        self._begin = _control_token(tokenizer, "[CLS]")
        self._end = _control_token(tokenizer, "[SEP]")

    @classmethod
    def load(cls, folder: Path, *, device: str | torch.device = "cpu") -> Encoder:
        """Reads `model.safetensors` and `tokenizer.json` from a folder; OSError when one is missing."""
        tokenizer = Tokenizer.from_file(_existing(folder / "tokenizer.json"))
        tokenizer.no_truncation()  # the file cuts at 128 tokens and pads up to it
        tokenizer.no_padding()
        tokenizer.encode_special_tokens = True  # "[SEP]" typed by a person stays text
        tensors = load_file(_existing(folder / "model.safetensors"), device=str(device))
        return cls(tensors, tokenizer)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors [texts, 384] of at most `BATCH_LIMIT` texts.

        A vector is the mean of the final states of all tokens, divided by its length. A text over
        `WINDOW_TOKENS` is read in consecutive windows that do not see each other; the mean runs over the
        tokens of all of them. ValueError when there are too many texts or one text is too long.
        """
        return sentence_vectors(self.layer_means(texts))

    def layer_means(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """What the safety heads read: mean token states [texts, layers + 1, 384], the first before any layer.

        Early layers still know the wording, the last one mostly the topic. Bounds and errors as in `embed`.
        """
        if len(texts) > BATCH_LIMIT:
            raise ValueError(f"texts: {len(texts)} given, at most {BATCH_LIMIT} a call")
        windows = [self._windows(index, text) for index, text in enumerate(texts)]
        means = np.empty((len(texts), NUM_LAYERS + 1, WIDTH), dtype=np.float32)
        with torch.inference_mode():
            for index, text_windows in enumerate(windows):
                states = torch.cat([self._states(window) for window in text_windows], dim=1)
                means[index] = states.mean(dim=1).cpu().numpy()
        return means

    def _windows(self, index: int, text: str) -> list[list[int]]:
        """Token ids of a text, cut into windows that each begin with [CLS] and end with [SEP]."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        room = WINDOW_TOKENS - 2
        if len(ids) > MAX_WINDOWS * room:
            raise ValueError(f"texts[{index}]: {len(ids)} tokens, at most {MAX_WINDOWS * room}")
        return [[self._begin, *part, self._end] for part in _parts(ids, room)]

    def _states(self, ids: list[int]) -> Tensor:
        """States [layers + 1, len(ids), width] of one window: before the first layer and after each."""
        rows = self._words[torch.tensor(ids, device=self._words.device)] + self._positions[: len(ids)]
        states = [self._norm.normalise(rows)]
        for layer in self._layers:
            states.append(layer.forward(states[-1]))
        return torch.stack(states)


def sentence_vectors(layer_means: NDArray[np.float32]) -> NDArray[np.float32]:
    """Unit vectors [texts, width] from `Encoder.layer_means`: the last layer's mean divided by its length."""
    last = layer_means[:, -1]
    vectors: NDArray[np.float32] = last / np.linalg.norm(last, axis=1, keepdims=True)
    return vectors


def _parts(ids: list[int], size: int) -> Iterator[list[int]]:
    """Consecutive parts of at most `size` ids; one empty part when there are none."""
    for start in range(0, max(len(ids), 1), size):
        yield ids[start : start + size]


def _control_token(tokenizer: Tokenizer, text: str) -> int:
    token_id: int | None = tokenizer.token_to_id(text)
    if token_id is None:
        raise ValueError(f"tokenizer.json has no token {text}: it belongs to another model")
    return token_id


def _existing(path: Path) -> str:
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: it belongs to the sentence-embedding model")
    return str(path)


def _affine(tensors: dict[str, Tensor], name: str) -> _Affine:
    return _Affine(tensors[f"{name}.weight"], tensors[f"{name}.bias"])


def _layer(tensors: dict[str, Tensor], name: str) -> _Layer:
    query_key_value = [_affine(tensors, f"{name}.attention.self.{part}") for part in ("query", "key", "value")]
    return _Layer(
        query_key_value=_Affine(
            torch.cat([part.weight for part in query_key_value]),
            torch.cat([part.bias for part in query_key_value]),
        ),
        attention_output=_affine(tensors, f"{name}.attention.output.dense"),
        attention_norm=_affine(tensors, f"{name}.attention.output.LayerNorm"),
        feed_forward_up=_affine(tensors, f"{name}.intermediate.dense"),
        feed_forward_down=_affine(tensors, f"{name}.output.dense"),
        feed_forward_norm=_affine(tensors, f"{name}.output.LayerNorm"),
    )
