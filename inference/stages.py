"""The stages that happen inside the model, by their slug, in the order of the catalogue."""

MODEL_STAGES = (
    "embeddings",
    "positions",
    "qkv",
    "scores",
    "scale",
    "mask",
    "softmax",
    "weighted_sum",
    "heads",
    "residual_norm",
    "feed_forward",
    "logits",
)
