"""What can be seen inside a response: every view derives exactly the slice asked for from what was kept.

`VIEWS[slug](trace, query)` returns a View or raises QueryError; what each takes stands in `inference.query`. A trace
whose recording was evicted is made whole again by `rebuild`.
"""

from collections.abc import Callable

import torch

from inference.query import Query
from inference.views import ablation, attention, attribution, contextual, kv_cache, maps, output, states, what_if
from inference.views.rebuild import rebuild
from inference.views.trace import Agreement, Trace
from inference.views.view import View

__all__ = ["VIEWS", "Agreement", "Trace", "View", "rebuild"]

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
    "attribution": attribution.attribution,
    "ablation": ablation.ablation,
    "probabilities": output.probabilities,
    "what_if": what_if.what_if,
    "kv_cache": kv_cache.kv_cache,
    "contextual": contextual.contextual,
}
VIEWS: dict[str, Callable[[Trace, Query], View]] = {
    slug: torch.inference_mode()(derive) for slug, derive in _DERIVED.items()
}
"""Views by slug: all of `inference.query.ASKED` that need a recording."""
