"""What a view reads: the residual stream, keys, values and weights of one response."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from torch import Tensor

from inference.cache import KVCache, ResidualPool
from inference.model.decoder import CUT, Chunk, Decoder
from inference.views.query import MAX_TOP, Query, QueryError, within
from inference.views.view import Array, View

TOLERANCE = {"float32": 1e-5}
PACKED_TOLERANCE = 2e-3
"""How far a derived attention weight may lie from the one the running model used: the sums behind both are the
same, but a prompt is computed in cuts of many rows and a view in few, so float sums round differently."""


def no_pause() -> None:
    """Nothing else to do meanwhile."""


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
    pause: Callable[[], None] = no_pause
    """Called between cuts of a recomputation, so that running responses go on."""

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
        }
        return View(common | info, tensors)


def rebuild(trace: Trace) -> Trace:
    """The same response recomputed from its token ids, in memory of its own: for what was evicted.

    The prompt goes through the layers in the fixed cuts of a prefill, the answer as it was decoded, and so does what
    the prompt reused of earlier answers: every token attends for itself. Since no row of a product depends on its
    neighbours, many tokens can share a step, and the result is the run itself, bit by bit, on the CPU. Of the given
    trace only decoder, token ids, counts and `decoded_prefix` are read.
    """
    decoder, size = trace.decoder, trace.cache.block_size
    num_blocks = -(-trace.length // size)
    cache = KVCache(decoder.config, num_blocks, size, device=decoder.device)
    residuals = ResidualPool(decoder.config, num_blocks, size, device=decoder.device)
    for step in _replay(trace, range(num_blocks)):
        decoder.forward(step, cache, residuals)
        trace.pause()
    return replace(trace, cache=cache, residuals=residuals, blocks=range(num_blocks), provenance="rebuilt")


def _replay(trace: Trace, blocks: Sequence[int]) -> Iterator[list[Chunk]]:
    """The chunks of every step: a cut of the prompt each, then decoded tokens, as many as a cut has."""

    def chunk(start: int, stop: int) -> Chunk:
        return Chunk(trace.token_ids[start:stop], start, blocks, wants_logits=False, record=True)

    read = 0
    for first, last in (*trace.decoded_prefix, (min(trace.num_prompt_tokens, trace.length), trace.length)):
        while read < first:
            end = min((read // CUT + 1) * CUT, first)
            yield [chunk(read, end)]
            read = end
        for start in range(first, last, CUT):
            yield [chunk(at, at + 1) for at in range(start, min(start + CUT, last))]
        read = last
