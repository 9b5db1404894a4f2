"""What can be seen inside a response: every view derives exactly the slice asked for from what was kept.

`VIEWS[slug](trace, query)` returns a View or raises QueryError. A trace whose recording was evicted is made whole
again by `rebuild`.
"""

from collections.abc import Callable

import torch

from inference.views import attention, maps, output, states, what_if
from inference.views.query import Query, QueryError, parse_query
from inference.views.trace import Trace, rebuild
from inference.views.view import View

__all__ = ["VIEWS", "Query", "QueryError", "Trace", "View", "parse_query", "rebuild"]

_DERIVED: dict[str, Callable[[Trace, Query], View]] = {
    "embeddings": states.embeddings,
    "positions": attention.positions,
    "qkv": attention.qkv,
    "scores": attention.scores,
    "scale": attention.scaled_scores,
    "mask": attention.mask,
    "softmax": attention.softmax_row,
    "attention": maps.attention_map,
    "heads_grid": maps.heads_grid,
    "weighted_sum": attention.weighted_values,
    "heads": attention.heads,
    "residual_norm": states.residual_norm,
    "feed_forward": states.feed_forward,
    "logits": output.logits,
    "lens": output.lens,
    "probabilities": output.probabilities,
    "what_if": what_if.what_if,
    "kv_cache": output.kv_cache,
}
VIEWS: dict[str, Callable[[Trace, Query], View]] = {
    slug: torch.inference_mode()(derive) for slug, derive in _DERIVED.items()
}
"""Views by slug: those of the stages, and attention (map of a head), heads_grid, lens and what_if beside them."""
