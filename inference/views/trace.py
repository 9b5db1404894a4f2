"""What a view reads: the residual stream, keys, values and weights of one response."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from torch import Tensor

from inference.cache import KVCache, ResidualPool
from inference.model.decoder import CUT, Decoder
from inference.query import MAX_TOP, Query, QueryError, within
from inference.views.view import Array, View

TOLERANCE = {"float32": 1e-5}
PACKED_TOLERANCE = 2e-3
"""How far a derived number may lie from the one the running model used, as a share of the largest of its kind (and of
1, for weights): the sums behind both are the same, but a prompt is computed in cuts of many rows and a view in few, so
float sums round differently."""

ROWS_AT_ONCE = 4
"""Products with the whole vocabulary between two pauses."""
WEIGHED_AT_ONCE = 2**17
"""Pairs of a query and a key between two pauses, in all heads of a layer: a cut of a thousand positions."""


def no_pause() -> None:
    """Nothing else to do meanwhile."""


def always() -> bool:
    """Memory of its own."""
    return True


@dataclass(frozen=True)
class Agreement:
    """The answer's raw log-probabilities, recorded by the run and recomputed."""

    num_compared: int
    """Steps; 0 where none was recorded."""
    largest_difference: float | None
    """None where nothing was compared."""


@dataclass(frozen=True)
class Trace:
    """A response to look into, live or finished. Layers, heads, positions and steps count from 0."""

    decoder: Decoder
    cache: KVCache
    residuals: ResidualPool
    blocks: Sequence[int]
    token_ids: Sequence[int]
    """Prompt and answer."""
    num_prompt_tokens: int
    num_computed: int | None = None
    """Positions that went through the layers; None: all but the last token, which nobody has read yet."""
    decoded_prefix: Sequence[tuple[int, int]] = ()
    """Positions [from, to) of the prompt that were computed token by token, as an earlier answer."""
    provenance: Literal["derived", "rebuilt"] = "derived"
    """From the recording of the run itself, or from a recomputation of its token ids."""
    agreement: Agreement | None = None
    """How a recomputation compares with what was recorded."""
    pause: Callable[[], None] = no_pause
    """Called between the pieces of what takes longer than a step, so that running responses go on."""
    other: Trace | None = None
    """The second response of a comparison."""
    is_intact: Callable[[], bool] = always
    """Whether nobody else can have written into the blocks since this was made."""

    @property
    def length(self) -> int:
        """Positions that can be looked at."""
        if self.num_computed is not None:
            return self.num_computed
        return max(self.num_prompt_tokens, len(self.token_ids) - 1)

    def states(self, layer: int, start: int, stop: int) -> Tensor:
        """Residual stream entering the layer (n_layers: leaving the last) at positions start to stop - 1."""
        return self.residuals.read(layer, self.residuals.slots(self.blocks, start, stop))

    def stream(self, position: int) -> Tensor:
        """Residual stream of one position entering every layer and leaving the last, [n_layers + 1, width]."""
        return self.residuals.rows[:, self.residuals.slots(self.blocks, position, position + 1)][:, 0]

    def keys_and_values(self, layer: int, stop: int) -> tuple[Tensor, Tensor]:
        """Of positions 0 to stop - 1, each [n_kv_heads, stop, head_width]."""
        return self.cache.read(layer, self.cache.slots(self.blocks, 0, stop))

    def pass_of(self, position: int) -> tuple[int, int]:
        """The positions [from, to) that went through the layers together with this one, in the run."""
        start, stop = position // CUT * CUT, (position // CUT + 1) * CUT
        for first, last in (*self.decoded_prefix, (self.num_prompt_tokens, self.num_prompt_tokens)):
            if first <= position < last:
                return position, position + 1
            start = max(start, last) if last <= position else start
            stop = min(stop, first) if first > position else stop
        return (start, stop) if position < self.num_prompt_tokens else (position, position + 1)

    def next_token(self, position: int) -> int | None:
        """The token that follows the position, if one does."""
        return self.token_ids[position + 1] if position + 1 < len(self.token_ids) else None

    def layer(self, query: Query) -> int:
        """The layer asked for."""
        return within("layer", query.layer, self.decoder.config.n_layers, "the model's layers")

    def head(self, query: Query) -> int:
        """The head asked for."""
        return within("head", query.head, self.decoder.config.n_heads, "the model's heads")

    def position(self, query: Query) -> int:
        """The position asked for, by itself or through its step; else the one that chose step 0's token."""
        if query.position is not None:
            return within("position", query.position, self.length, "computed so far")
        if query.step is None:
            return self.num_prompt_tokens - 1
        num_steps = self.length - self.num_prompt_tokens + 1
        return self.num_prompt_tokens - 1 + within("step", query.step, num_steps, "computed so far")

    def top(self, query: Query) -> int:
        """How many rows of a ranking are asked for."""
        if not 1 <= query.top <= MAX_TOP:
            raise QueryError("top", f"must be 1 to {MAX_TOP}, not {query.top}")
        return min(query.top, self.decoder.config.vocabulary)

    def view(self, slug: str, tensors: dict[str, Array], position: int | None = None, **info: Any) -> View:
        """A view with what every view states: shapes, the position and its step, where the numbers come from."""
        step = None if position is None else position - self.num_prompt_tokens + 1
        kernel = self.decoder.plan.linear
        common = {
            "slug": slug,
            "shapes": {name: list(tensor.shape) for name, tensor in tensors.items()},
            "position": position,
            "step": step if step is not None and step >= 0 else None,
            "num_positions": self.length,
            "provenance": self.provenance,
            "exactness": {"kernel": kernel, "tolerance": TOLERANCE.get(kernel, PACKED_TOLERANCE)},
            "agreement": None if self.agreement is None else asdict(self.agreement),
        }
        return View(common | info, tensors)
