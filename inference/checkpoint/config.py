"""The dimensions of a model, as its checkpoint states them. Never imports torch."""

from dataclasses import dataclass


class UnsupportedCheckpoint(Exception):
    """The file asks for something this decoder does not do; the message names the feature."""


@dataclass(frozen=True)
class ModelConfig:
    """What a decoder needs to know about a checkpoint apart from its weights."""

    architecture: str
    n_layers: int
    n_heads: int
    n_kv_heads: int
    head_width: int
    width: int
    feed_forward_width: int
    vocabulary: int
    context_length: int
    rope_base: float
    rms_epsilon: float
    tied_head: bool
    """Whether the output head is the embedding table."""

    def __post_init__(self) -> None:
        sizes = ("n_layers", "n_heads", "n_kv_heads", "head_width", "width", "feed_forward_width", "vocabulary")
        for field in sizes:
            if getattr(self, field) < 1:
                raise UnsupportedCheckpoint(f"{field} is {getattr(self, field)}; it must be at least 1")
        if self.n_heads % self.n_kv_heads:
            raise UnsupportedCheckpoint(f"{self.n_heads} heads cannot share {self.n_kv_heads} key/value heads evenly")
        if self.head_width % 2:
            raise UnsupportedCheckpoint(f"head width {self.head_width} is odd; rotary positions need pairs")

    @property
    def heads_per_kv_head(self) -> int:
        """How many query heads share one key/value head (grouped-query attention)."""
        return self.n_heads // self.n_kv_heads

    @property
    def query_width(self) -> int:
        """Width of all queries of one position: n_heads * head_width."""
        return self.n_heads * self.head_width

    @property
    def qkv_width(self) -> int:
        """Width of all queries, keys and values of one position, as one projection computes them."""
        return (self.n_heads + 2 * self.n_kv_heads) * self.head_width
