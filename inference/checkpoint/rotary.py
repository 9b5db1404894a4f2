"""How a layer's queries and keys are turned by position, as a checkpoint states it. Never imports torch."""

from dataclasses import dataclass
from typing import ClassVar

from inference.checkpoint.unsupported import UnsupportedCheckpoint


@dataclass(frozen=True)
class LinearScaling:
    """All angles divided by one factor: positions squeezed into the trained context. Chen et al. (2023)."""

    name: ClassVar[str] = "linear"
    factor: float


@dataclass(frozen=True)
class Llama3Scaling:
    """Slow pairs divided by the factor, fast ones left as they are, a straight line between (Llama 3.1)."""

    name: ClassVar[str] = "llama3"
    factor: float
    low_frequency_factor: float
    high_frequency_factor: float
    original_context: int

    def __post_init__(self) -> None:
        if not 0 < self.low_frequency_factor < self.high_frequency_factor:
            raise UnsupportedCheckpoint(
                f"rotary scaling between the frequency factors {self.low_frequency_factor} and "
                f"{self.high_frequency_factor}; the second must be larger, both above 0"
            )


@dataclass(frozen=True)
class YarnScaling:
    """As in Llama 3.1 by another rule, and all turned vectors lengthened. Peng et al. (2023), "YaRN"."""

    name: ClassVar[str] = "yarn"
    factor: float
    original_context: int
    attention_factor: float
    """By which queries and keys are lengthened."""
    beta_fast: float = 32.0
    """Pairs that turn at least this often within the original context are left as they are."""
    beta_slow: float = 1.0
    """Pairs that turn at most this often within it are divided by the factor."""
    whole_pairs: bool = True
    """Whether the two borders are rounded outwards to whole pairs."""

    def __post_init__(self) -> None:
        if not 0 < self.beta_slow < self.beta_fast:
            raise UnsupportedCheckpoint(
                f"rotary scaling between {self.beta_slow} and {self.beta_fast} turns; the second must be larger, "
                "both above 0"
            )


@dataclass(frozen=True)
class ListedScaling:
    """Every pair's angle divided by a number of its own, as GGUF lists them for Llama 3.1."""

    name: ClassVar[str] = "listed"
    divisors: tuple[float, ...]
    """[head_width / 2]"""


Scaling = LinearScaling | Llama3Scaling | YarnScaling | ListedScaling


@dataclass(frozen=True)
class Rotary:
    """Pair j is turned by position * base^(-2j / head_width), scaled if the model was stretched to longer texts."""

    base: float
    scaling: Scaling | None = None

    def __post_init__(self) -> None:
        if self.base <= 1:
            raise UnsupportedCheckpoint(f"rotary positions of base {self.base}; it must be above 1")
        if isinstance(self.scaling, LinearScaling | Llama3Scaling | YarnScaling) and self.scaling.factor <= 0:
            raise UnsupportedCheckpoint(f"rotary scaling by {self.scaling.factor}; it must be above 0")
        if isinstance(self.scaling, Llama3Scaling | YarnScaling) and self.scaling.original_context < 1:
            raise UnsupportedCheckpoint("rotary scaling of an original context of 0 positions")

    @property
    def magnitude(self) -> float:
        """By how much a turn lengthens a pair: 1 but for YaRN."""
        return self.scaling.attention_factor if isinstance(self.scaling, YarnScaling) else 1.0
