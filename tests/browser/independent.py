"""The model and the sampler once more, in plain float64 numpy on the numbers of the file.

Written from the architecture's description (Llama with grouped queries, rotary pairs side by side) and independent of
the product: nothing here may import it.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import gguf
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
# Of the file format: numbers by their type's code, the codes of texts and lists, where tensors may begin.
NUMBERS = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))
STRING, LIST = 8, 9
ALIGNMENT = 32


class Weights:
    """Tensors of a GGUF file by their own names, dequantised when asked for."""

    def __init__(self, path: Path) -> None:
        self._bytes = np.memmap(path, dtype=np.uint8, mode="r")
        header = _Header(self._bytes)
        self._tensors = header.tensors
        fields = {name.removeprefix("llama."): value for name, value in header.fields.items()}
        self.n_layers: int = fields["block_count"]
        self.n_heads: int = fields["attention.head_count"]
        self.n_kv_heads: int = fields["attention.head_count_kv"]
        self.base: float = fields["rope.freq_base"]
        self.epsilon: float = fields["attention.layer_norm_rms_epsilon"]
        self.context_length: int = fields["context_length"]
        self.embedding = self["token_embd"]
        self.width = self.embedding.shape[1]
        self.head_width = self.width // self.n_heads

    def __getitem__(self, name: str) -> Array:
        stored = self._tensors[f"{name}.weight"]
        block, block_bytes = gguf.GGML_QUANT_SIZES[stored.kind]
        row_bytes = stored.shape[-1] // block * block_bytes
        rows = math.prod(stored.shape[:-1])
        packed = self._bytes[stored.begin : stored.begin + rows * row_bytes].reshape(rows, row_bytes)
        return np.asarray(gguf.dequantize(packed, stored.kind).reshape(stored.shape), dtype=np.float64)


class _Stored(NamedTuple):
    shape: tuple[int, ...]
    kind: gguf.GGMLQuantizationType
    begin: int


class _Header:
    """Fields and tensors of a GGUF file. The package's own reader spends seconds on the lists of the tokenizer,
    which are stepped over here: they come as None."""

    def __init__(self, data: NDArray[np.uint8]) -> None:
        self._data = data
        self._at = 4 + 4  # the magic word and the version
        num_tensors, num_fields = self._number("Q"), self._number("Q")
        self.fields: dict[str, Any] = {self._text(): self._value(self._number("I")) for _ in range(num_fields)}
        found = [self._tensor() for _ in range(num_tensors)]
        start = -(-self._at // ALIGNMENT) * ALIGNMENT
        self.tensors = {name: stored._replace(begin=start + stored.begin) for name, stored in found}

    def _number(self, code: str) -> Any:
        (value,) = struct.unpack_from(f"<{code}", self._data.data, self._at)
        self._at += struct.calcsize(f"<{code}")
        return value

    def _text(self) -> str:
        length = self._number("Q")
        self._at += length
        return bytes(self._data[self._at - length : self._at]).decode()

    def _value(self, kind: int) -> Any:
        if kind == STRING:
            return self._text()
        if kind != LIST:
            return self._number(NUMBERS[kind])
        inner, count = self._number("I"), self._number("Q")
        if inner != STRING:
            self._at += count * struct.calcsize(f"<{NUMBERS[inner]}")
            return None
        for _ in range(count):
            length = self._number("Q")
            self._at += length
        return None

    def _tensor(self) -> tuple[str, _Stored]:
        name = self._text()
        sizes = [self._number("Q") for _ in range(self._number("I"))]
        kind = gguf.GGMLQuantizationType(self._number("I"))
        return name, _Stored(tuple(reversed(sizes)), kind, self._number("Q"))


@dataclass(frozen=True)
class Layer:
    """What one layer computed for every position. Heads stand before positions: [heads, positions, head_width]."""

    old: Array
    normed: Array
    plain_q: Array
    plain_k: Array
    q: Array
    k: Array
    v: Array
    raw: Array
    """Dot products [heads, queries, keys], those of later keys too."""
    scaled: Array
    weights: Array
    mixed: Array
    attention_update: Array
    middle: Array
    gate: Array
    up: Array
    activation: Array
    feed_forward_update: Array
    new: Array


@dataclass(frozen=True)
class Pass:
    """All positions of one text through all layers."""

    layer: Layer
    """The one that was asked for."""
    norms: Array
    """[n_layers + 1, positions]: of the states entering every layer, and after the final norm."""
    logits: Array
    """[positions, vocabulary]"""


def forward(weights: Weights, token_ids: Sequence[int], layer: int) -> Pass:
    """Run the whole text in one piece, without a cache, and keep what `layer` did."""
    states = weights.embedding[list(token_ids)]
    norms = []
    kept = None
    for number in range(weights.n_layers):
        norms.append(np.linalg.norm(states, axis=1))
        computed = _layer(weights, f"blk.{number}.", states)
        if number == layer:
            kept = computed
        states = computed.new
    assert kept is not None
    final = normalise(states, weights["output_norm"], weights.epsilon)
    norms.append(np.linalg.norm(final, axis=1))
    return Pass(kept, np.stack(norms), final @ weights.embedding.T)


def _layer(weights: Weights, at: str, old: Array) -> Layer:
    length = len(old)
    normed = normalise(old, weights[f"{at}attn_norm"], weights.epsilon)

    def heads(name: str) -> Array:
        rows = normed @ weights[f"{at}attn_{name}"].T
        return rows.reshape(length, -1, weights.head_width).transpose(1, 0, 2)

    plain_q, plain_k, v = heads("q"), heads("k"), heads("v")
    turns = np.stack([angles(position, weights.head_width, weights.base) for position in range(length)])
    q, k = turn(plain_q, turns), turn(plain_k, turns)
    shared = weights.n_heads // weights.n_kv_heads
    raw = np.stack([q[head] @ k[head // shared].T for head in range(weights.n_heads)])
    scaled = raw / np.sqrt(weights.head_width)
    later = np.triu(np.ones((length, length), dtype=bool), 1)
    shares = softmax(np.where(later, -np.inf, scaled))
    mixed = np.stack([shares[head] @ v[head // shared] for head in range(weights.n_heads)])
    attention_update = mixed.transpose(1, 0, 2).reshape(length, -1) @ weights[f"{at}attn_output"].T
    middle = old + attention_update
    prepared = normalise(middle, weights[f"{at}ffn_norm"], weights.epsilon)
    gate, up = prepared @ weights[f"{at}ffn_gate"].T, prepared @ weights[f"{at}ffn_up"].T
    activation = gate / (1 + np.exp(-gate)) * up
    feed_forward_update = activation @ weights[f"{at}ffn_down"].T
    new = middle + feed_forward_update
    return Layer(
        old, normed, plain_q, plain_k, q, k, v, raw, scaled, shares, mixed, attention_update, middle, gate, up,
        activation, feed_forward_update, new,
    )  # fmt: skip


def normalise(states: Array, weight: Array, epsilon: float) -> Array:
    result: Array = states / np.sqrt(np.mean(states**2, axis=-1, keepdims=True) + epsilon) * weight
    return result


def angles(position: int, head_width: int, base: float) -> Array:
    """Radians by which each pair of numbers is turned, [head_width / 2]."""
    pairs = np.arange(0, head_width, 2)
    return position * base ** (-pairs / head_width)


def turn(vectors: Array, by: Array) -> Array:
    """Turn numbers 2j and 2j + 1 of [heads, positions, head_width] by [positions, head_width / 2]."""
    x, y = vectors[..., 0::2], vectors[..., 1::2]
    turned = np.stack([x * np.cos(by) - y * np.sin(by), x * np.sin(by) + y * np.cos(by)], axis=-1)
    return turned.reshape(vectors.shape)


def softmax(scores: Array) -> Array:
    powers: Array = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares: Array = powers / powers.sum(axis=-1, keepdims=True)
    return shares


def entropy(shares: Array) -> float:
    """In nats."""
    some = shares[shares > 0]
    return float(-np.sum(some * np.log(some)))


def cosines(table: Array, row: Array) -> Array:
    lengths = np.linalg.norm(table, axis=1) * np.linalg.norm(row)
    found: Array = np.divide(table @ row, lengths, out=np.zeros(len(table)), where=lengths > 0)
    return found


@dataclass(frozen=True)
class Draw:
    """How one token is drawn: by filter how many survive it and the mass it removes; then the number and its token."""

    survivors: Mapping[str, int]
    removed: Mapping[str, float]
    shares: Array
    """[vocabulary] after all filters."""
    uniform: float
    token: int


def draw(logits: Array, step: int, *, seed: int, temperature: float, top_k: int, top_p: float) -> Draw:
    """Temperature, then top-k, then top-p; then the number of this seed and step falls on a token.

    The survivors lie end to end from 0 to 1, most probable first.
    """
    order = np.argsort(-logits, kind="stable")
    shares = softmax(logits[order] / temperature)
    survivors, removed = {"temperature": len(shares)}, {"temperature": 0.0}
    before = np.cumsum(shares[:top_k] / shares[:top_k].sum()) - shares[:top_k] / shares[:top_k].sum()
    for name, kept in (("top_k", top_k), ("top_p", int(np.sum(before < top_p)))):
        survivors[name], removed[name] = kept, float(1 - shares[:kept].sum())
        shares = shares[:kept] / shares[:kept].sum()
    uniform = float(np.random.Generator(np.random.Philox(key=seed, counter=step)).random())
    place = int(np.searchsorted(np.cumsum(shares), uniform, side="right"))
    by_token = np.zeros(len(logits))
    by_token[order[: len(shares)]] = shares
    return Draw(survivors, removed, by_token, uniform, int(order[place]))
