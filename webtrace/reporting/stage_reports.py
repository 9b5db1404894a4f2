"""Which report each stage makes."""

from __future__ import annotations

import msgspec

from webtrace.reporting.model_reports import (
    AppendReport,
    DetokenizeReport,
    KVCacheReport,
    LogitsReport,
    ModelStageReport,
    ProbabilitiesReport,
    SamplingReport,
    TokenIdsReport,
    TokensReport,
)
from webtrace.reporting.service_reports import (
    GatewayReport,
    InputSafetyReport,
    OutputSafetyReport,
    PromptReport,
    RequestReport,
    RetrievalReport,
    RoutingReport,
    StorageReport,
    StreamReport,
)

REPORTS: dict[str, type[msgspec.Struct]] = {
    "request": RequestReport,
    "gateway": GatewayReport,
    "retrieval": RetrievalReport,
    "prompt": PromptReport,
    "input_safety": InputSafetyReport,
    "routing": RoutingReport,
    "tokens": TokensReport,
    "token_ids": TokenIdsReport,
    **dict.fromkeys(
        ("embeddings", "positions", "qkv", "scores", "scale", "mask", "softmax", "weighted_sum", "heads",
         "residual_norm", "feed_forward"),
        ModelStageReport,
    ),
    "logits": LogitsReport,
    "probabilities": ProbabilitiesReport,
    "sampling": SamplingReport,
    "append": AppendReport,
    "kv_cache": KVCacheReport,
    "detokenize": DetokenizeReport,
    "output_safety": OutputSafetyReport,
    "stream": StreamReport,
    "storage": StorageReport,
}  # fmt: skip
