"""The catalogue of stages: what each one is, for the page, the debugging table and the log."""

from __future__ import annotations

from typing import Literal

import msgspec

World = Literal["service", "model"]
Subject = Literal[
    "software engineering", "distributed systems", "prompt engineering", "machine learning", "AI infrastructure",
    "NLP", "mathematics", "neural networks", "deep learning", "probability",
]  # fmt: skip


class Stage(msgspec.Struct, frozen=True):
    """One row. `number` is null for retrieval, which the article places beside the numbered stages.

    `reading` says how its picture is to be read, where that needs saying; `not_shown` what is not in it.
    `llm_started` answers the question every debug snapshot asks: has the network computed anything yet?
    `debug_row` is the row of the article's 22-row table that this stage belongs to.
    """

    number: int | None
    slug: str
    title: str
    world: World
    stretch: Literal["before the model", "language to numbers", "inside a layer", "next word", "back to you"]
    llm_started: bool
    input: str
    operation: str
    output: str
    concept: str
    subject: Subject
    failures: tuple[str, ...]
    metric: str
    not_shown: str
    debug_row: int | None
    reading: str = ""


def _stage(number, slug, title, world, stretch, llm_started, row, **rest) -> Stage:  # type: ignore[no-untyped-def]
    return Stage(number, slug, title, world, stretch, llm_started, debug_row=row, **rest)


_BEFORE, _LANGUAGE, _LAYER, _NEXT, _BACK = (
    "before the model", "language to numbers", "inside a layer", "next word", "back to you",
)  # fmt: skip

STAGES: tuple[Stage, ...] = (
    _stage(
        1, "request", "The request", "service", _BEFORE, False, 1,
        input="characters you typed", operation="serialise as JSON and send", output="one network message",
        concept="API communication", subject="software engineering",
        failures=("not JSON", "unknown type", "field of a wrong type"), metric="bytes",
        not_shown="The encryption itself happens below this program: it only sees whether the connection had it.",
    ),
    _stage(
        2, "gateway", "The gateway", "service", _BEFORE, False, 2,
        input="network message", operation="check structure, size, identity, access, limit, model",
        output="an identified request, or a refusal", concept="Distributed systems", subject="distributed systems",
        failures=("not signed in", "too large", "limit reached", "model not available"), metric="checks passed",
        not_shown="What other people's limits are, or how many of them are waiting.",
    ),
    _stage(
        None, "retrieval", "Retrieval", "service", _BEFORE, False, None,
        input="your message", operation="compare its embedding with document embeddings",
        output="chosen chunks, or the reason for none", concept="Semantic search", subject="machine learning",
        failures=("no document close enough",), metric="best cosine similarity",
        not_shown="Whether a chunk is true: closeness of two vectors says nothing about that.",
        reading="Here, and not in attention, is where cosine similarity is at home: one vector for a whole text "
        "against another.",
    ),
    _stage(
        3, "prompt", "The prompt", "service", _BEFORE, False, 3,
        input="instructions, history, your message", operation="assemble by the chat template",
        output="one text with role markers", concept="Prompt construction", subject="prompt engineering",
        failures=("longer than the context window",), metric="tokens per segment",
        not_shown="How much each segment will matter: the model decides that layer by layer.",
    ),
    _stage(
        4, "input_safety", "Input safety", "service", _BEFORE, False, 4,
        input="your message", operation="classify, apply rules", output="scores and a decision",
        concept="Classification", subject="machine learning", failures=("wrongly refused", "wrongly allowed"),
        metric="score against threshold",
        not_shown="What you meant. A classifier sees wording, not intent, and its scores are not certainties.",
        reading="These scores come from a trained classifier or a rule, as named above. Seen from outside, a score "
        "does not tell which technique made it.",
    ),
    _stage(
        5, "routing", "Routing", "service", _BEFORE, False, 5,
        input="an approved request", operation="compare models and workers, wait for a place",
        output="a model, a worker, a place in a batch", concept="Model serving", subject="AI infrastructure",
        failures=("no worker alive", "queue full"), metric="queue time",
        not_shown="The requests it shares the batch with: they are other people's.",
        reading="The queue time is measured by the database's clock, from the job's creation to its taking. The "
        "fingerprint names what the numbers depend on: weights, kernels, library.",
    ),
    _stage(
        6, "tokens", "Tokens", "model", _LANGUAGE, False, 6,
        input="text", operation="split into subwords", output="tokens",
        concept="Subword tokenisation", subject="NLP", failures=("a rare word falls into many pieces",),
        metric="characters per token", not_shown="Grammar. The pieces come from counts, not from parts of speech.",
    ),
    _stage(
        7, "token_ids", "Token ids", "model", _LANGUAGE, False, 7,
        input="tokens", operation="look up in the vocabulary", output="token ids",
        concept="Encoding categories as indices", subject="NLP", failures=("none: every byte has an id",),
        metric="vocabulary size", not_shown="Any quantity. An id is a label: adding or averaging ids means nothing.",
    ),
    _stage(
        8, "embeddings", "Embeddings", "model", _LANGUAGE, True, 8,
        input="token ids", operation="take rows of the embedding table", output="one vector per position",
        concept="Embedding lookup", subject="mathematics", failures=("a hardly trained row",), metric="vector norm",
        not_shown="Meaning in context: the same token starts from the same row in every sentence.",
    ),
    _stage(
        9, "positions", "Positions", "model", _LAYER, True, 9,
        input="queries and keys, positions", operation="rotate pairs of numbers by position (RoPE)",
        output="rotated queries and keys", concept="Rotary position embedding", subject="deep learning",
        failures=("positions beyond those trained on",), metric="angle per pair",
        not_shown="A position vector added to the embedding: this model has none.",
    ),
    _stage(
        10, "qkv", "Queries, keys, values", "model", _LAYER, True, 10,
        input="normalised states", operation="three matrix products", output="Q, K and V",
        concept="Linear projection", subject="mathematics", failures=("overflow in low precision",),
        metric="multiply-adds", not_shown="A question in words. Query and key are learned directions, nothing more.",
    ),
    _stage(
        11, "scores", "Scores", "model", _LAYER, True, 11,
        input="Q and K", operation="dot products", output="one score per pair of positions",
        concept="Dot product", subject="mathematics", failures=("scores too large for low precision",),
        metric="largest score", not_shown="Cosine similarity: lengths count here, nothing is normalised.",
    ),
    _stage(
        12, "scale", "Scale", "model", _LAYER, True, 12,
        input="scores", operation="divide by the square root of the head width", output="scaled scores",
        concept="Numerical range", subject="mathematics", failures=("none",), metric="range before and after",
        not_shown="A change of order: dividing all by one number keeps the ranking.",
    ),
    _stage(
        13, "mask", "Mask", "model", _LAYER, True, 12,
        input="scaled scores", operation="forbid keys after the query", output="allowed scores",
        concept="Causality", subject="deep learning", failures=("a leak of later tokens",), metric="allowed cells",
        not_shown="Secrecy: the mask follows from order alone.",
        reading="A forbidden score becomes minus infinity, whose exponential is exactly 0.",
    ),
    _stage(
        14, "softmax", "Softmax", "model", _LAYER, True, 13,
        input="allowed scores", operation="exponentials divided by their sum", output="attention weights",
        concept="Softmax", subject="probability", failures=("one position takes everything (a sink)",),
        metric="row sum and entropy",
        not_shown="Why. A large weight shows where this head read from, and one head proves nothing by itself.",
    ),
    _stage(
        15, "weighted_sum", "Weighted sum", "model", _LAYER, True, 14,
        input="weights and V", operation="weighted sum", output="one output vector per head",
        concept="Weighted average", subject="mathematics", failures=("none",), metric="norm of the output",
        not_shown="Which earlier layers wrote what is now being read.",
    ),
    _stage(
        16, "heads", "All heads", "model", _LAYER, True, 14,
        input="head outputs", operation="join and project", output="the attention update",
        concept="Multi-head attention", subject="deep learning", failures=("none",), metric="norm of the update",
        not_shown="A job title for each head: most have none that holds across texts.",
        reading="A long output is not an important one by itself: the matrix after it decides what of it remains.",
    ),
    _stage(
        17, "residual_norm", "Residual and norm", "model", _LAYER, True, 15,
        input="old state and update", operation="add; normalise before the next part", output="new state",
        concept="Residual stream", subject="deep learning", failures=("growth of a few large coordinates",),
        metric="norm before and after", not_shown="What a coordinate stands for: directions carry meaning, if any.",
        reading="Lengths do not add up like numbers: an update can point across the old state, or against it.",
    ),
    _stage(
        18, "feed_forward", "Feed-forward", "model", _LAYER, True, 15,
        input="normalised state", operation="gate × up, activation, down", output="the feed-forward update",
        concept="Non-linear transformation", subject="neural networks", failures=("none",),
        metric="strongest neurons", not_shown="Facts as entries: a neuron answers to many unrelated things.",
    ),
    _stage(
        19, "logits", "Logits", "model", _NEXT, True, 16,
        input="final state of the last position", operation="product with the vocabulary matrix",
        output="one logit per token", concept="Output projection", subject="deep learning", failures=("not finite",),
        metric="largest logit", not_shown="Probability: a logit has meaning only beside the others.",
    ),
    _stage(
        20, "probabilities", "Probabilities", "model", _NEXT, True, 17,
        input="logits", operation="softmax over the whole vocabulary", output="one probability per token",
        concept="Probability distribution", subject="probability", failures=("confidence in a false statement",),
        metric="entropy", not_shown="Truth. The numbers say what tends to follow, not what is so.",
        reading="The softmax runs over the whole vocabulary. A row whose second bar is empty was removed by a filter; "
        "what it had went to the tokens that stayed.",
    ),
    _stage(
        21, "sampling", "Sampling", "model", _NEXT, True, 18,
        input="logits", operation="bias, penalties, temperature, top-k, top-p, min-p, draw", output="one token",
        concept="Decoding strategy", subject="probability", failures=("a rare token by chance",),
        metric="mass removed by each filter", not_shown="A better answer: settings change variety, not knowledge.",
        reading="The order here is bias, penalties, temperature, top-k, top-p, min-p; other programs apply temperature "
        "last. Seed and step alone fix the draw, whoever else is being served.",
    ),
    _stage(
        22, "append", "Append and repeat", "model", _NEXT, True, 19,
        input="the text so far and one token", operation="append, run again", output="a longer text, or the end",
        concept="Autoregression", subject="deep learning", failures=("limit reached mid-sentence",),
        metric="steps", not_shown="A plan: no later token exists before its step.",
        reading="Rank 0 is the likeliest token. “Read” counts the tokens that stood before the step; thanks to the "
        "cache only the newest is computed anew. The probability is the model's own, before any filter.",
    ),
    _stage(
        23, "kv_cache", "KV cache", "model", _NEXT, True, 19,
        input="keys and values of earlier positions", operation="keep and reuse", output="one new row a step",
        concept="Caching", subject="AI infrastructure", failures=("out of blocks",), metric="rows reused",
        not_shown="Memory of earlier conversations: the cache holds this text only.",
    ),
    _stage(
        24, "detokenize", "Back to text", "model", _BACK, True, 20,
        input="token ids", operation="ids to bytes to characters", output="text", concept="Detokenisation",
        subject="NLP", failures=("a character still incomplete",), metric="held-back bytes",
        not_shown="A finished text that was waiting inside a vector.",
        reading="Held back: the bytes of a character that is not whole yet, or text that may begin "
        "a stop text.",
    ),
    _stage(
        25, "output_safety", "Output safety", "service", _BACK, True, 21,
        input="generated text", operation="classify windows, apply rules", output="released text",
        concept="Classification", subject="machine learning", failures=("wrongly held", "wrongly released"),
        metric="windows checked", not_shown="Whether a statement is true.",
        reading="Text and trace of a stretch are sent only when it has been let through.",
    ),
    _stage(
        26, "stream", "Streaming", "service", _BACK, True, 22,
        input="released text", operation="send in small frames", output="words on your screen",
        concept="Streaming", subject="software engineering", failures=("connection lost", "slow reader"),
        metric="time to first token", not_shown="Typing: the pace is that of computation and network.",
        reading="The worker counts from taking the job, the browser from pressing Send; the difference holds queue and "
        "network. The two clocks are never subtracted from each other. Several tokens may travel in one piece.",
    ),
    _stage(
        27, "storage", "Storage", "service", _BACK, True, None,
        input="the finished response", operation="store, with what must not be kept removed",
        output="rows in the database", concept="Observability", subject="distributed systems",
        failures=("database not reachable",), metric="bytes stored",
        not_shown="Training: nothing stored here changes the model.",
    ),
)  # fmt: skip

BY_SLUG: dict[str, Stage] = {stage.slug: stage for stage in STAGES}
