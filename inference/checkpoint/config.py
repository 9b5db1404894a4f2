"""The dimensions of a model, as its checkpoint states them. Never imports torch."""

import math
from dataclasses import dataclass
from typing import Literal

from inference.checkpoint.rotary import ListedScaling, Rotary
from inference.checkpoint.unsupported import UnsupportedCheckpoint

Activation = Literal["silu", "gelu_tanh"]


@dataclass(frozen=True)
class LayerKind:
    """In what the attention of layers of one model may differ."""

    rotary: Rotary | None
    """None: this layer knows the order of positions from the mask alone."""
    window: int | None = None
    """How many keys a query may look at, its own included; None: all before it."""


@dataclass(frozen=True)
class ModelConfig:
    """What a decoder needs to know about a checkpoint apart from its weights."""

    architecture: str
    layers: tuple[LayerKind, ...]
    n_heads: int
    n_kv_heads: int
    head_width: int
    width: int
    feed_forward_width: int
    vocabulary: int
    context_length: int
    rms_epsilon: float
    tied_head: bool
    """Whether the output head is the embedding table."""
    score_divisor: float
    """By which raw scores are divided; the root of the head width in most models."""
    activation: Activation = "silu"
    embedding_multiplier: float = 1.0
    """By which a row of the embedding table is multiplied to become the first state."""
    qkv_bias: bool = False
    output_bias: bool = False
    feed_forward_bias: bool = False
    query_key_norm: bool = False
    """Whether every head's query and key are normalised before they are turned."""
    post_norm: bool = False
    """Whether attention and feed-forward updates are normalised before they are added."""

    def __post_init__(self) -> None:
        sizes = ("n_heads", "n_kv_heads", "head_width", "width", "feed_forward_width", "vocabulary", "context_length")
        for field in ("n_layers", *sizes):
            if getattr(self, field) < 1:
                raise UnsupportedCheckpoint(f"{field} is {getattr(self, field)}; it must be at least 1")
        if self.n_heads % self.n_kv_heads:
            raise UnsupportedCheckpoint(f"{self.n_heads} heads cannot share {self.n_kv_heads} key/value heads evenly")
        if self.head_width % 2:
            raise UnsupportedCheckpoint(f"head width {self.head_width} is odd; rotary positions need pairs")
        for kind in set(self.layers):
            if kind.window is not None and kind.window < 1:
                raise UnsupportedCheckpoint(f"a sliding window of {kind.window} keys; it must be at least 1")
            scaling = kind.rotary.scaling if kind.rotary else None
            if isinstance(scaling, ListedScaling) and len(scaling.divisors) != self.head_width // 2:
                raise UnsupportedCheckpoint(
                    f"{len(scaling.divisors)} divisors of rotary angles for {self.head_width // 2} pairs"
                )

    @property
    def n_layers(self) -> int:
        return len(self.layers)

    @property
    def heads_per_kv_head(self) -> int:
        """How many query heads share one key/value head (grouped-query attention)."""
        return self.n_heads // self.n_kv_heads

    @property
    def query_width(self) -> int:
        """Width of all queries of one position: n_heads * head_width."""
        return self.n_heads * self.head_width

    @property
    def kv_width(self) -> int:
        """Width of all keys (or values) of one position: n_kv_heads * head_width."""
        return self.n_kv_heads * self.head_width

    @property
    def qkv_width(self) -> int:
        """Width of all queries, keys and values of one position, as one projection computes them."""
        return self.query_width + 2 * self.kv_width

    @property
    def num_parameters(self) -> int:
        """Numbers learned in training; a tied head counts once."""
        return sum(math.prod(shape) for shape in self.tensor_shapes().values())

    def tensor_shapes(self) -> dict[str, tuple[int, ...]]:
        """Every tensor that such a model has, by canonical name (see `weights.py`)."""
        table = (self.vocabulary, self.width)
        shapes: dict[str, tuple[int, ...]] = {"embedding": table, "final_norm": (self.width,)}
        if not self.tied_head:
            shapes["head"] = table
        one_layer = self._layer_shapes()
        for number in range(self.n_layers):
            shapes |= {f"layers.{number}.{name}": shape for name, shape in one_layer.items()}
        return shapes

    def _layer_shapes(self) -> dict[str, tuple[int, ...]]:
        matrices: dict[str, tuple[int, ...]] = {
            "q": (self.query_width, self.width),
            "k": (self.kv_width, self.width),
            "v": (self.kv_width, self.width),
            "output": (self.width, self.query_width),
            "gate": (self.feed_forward_width, self.width),
            "up": (self.feed_forward_width, self.width),
            "down": (self.width, self.feed_forward_width),
        }
        biased = ("q", "k", "v") * self.qkv_bias + ("output",) * self.output_bias
        biased += ("gate", "up", "down") * self.feed_forward_bias
        post_norms = ("attention_post_norm", "feed_forward_post_norm") * self.post_norm
        head_norms = ("q_norm", "k_norm") * self.query_key_norm
        return (
            matrices
            | {f"{name}.bias": matrices[name][:1] for name in biased}
            | dict.fromkeys(("attention_norm", "feed_forward_norm", *post_norms), (self.width,))
            | dict.fromkeys(head_norms, (self.head_width,))
        )
