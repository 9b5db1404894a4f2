"""Common beliefs about language models that a request contradicts, each with what is so."""

from __future__ import annotations

import msgspec


class Misconception(msgspec.Struct, frozen=True):
    """`name` is that of the evidence which the page draws beside it."""

    name: str
    belief: str
    truth: str


MISCONCEPTIONS: tuple[Misconception, ...] = (
    Misconception(
        "database",
        "It looks the answer up in a database.",
        "The words of an answer are computed from fixed weights and the text so far. A search happens only where a "
        "service adds one before the model, and then the text found stands in the prompt.",
    ),
    Misconception(
        "one-vector",
        "The sentence becomes one vector, and the vector is unpacked into an answer.",
        "Every position keeps a vector of its own through all layers, and the last one yields scores for a single "
        "next token.",
    ),
    Misconception(
        "cosine",
        "Attention measures cosine similarity.",
        "It takes dot products divided by a root. These count the length of a key too, so the two can rank the same "
        "keys differently.",
    ),
    Misconception(
        "best-sentence",
        "The most probable whole sentence is worked out first.",
        "Only the next token has a distribution. One is drawn and appended, and nothing goes back to mend it.",
    ),
    Misconception(
        "factual",
        "Probabilities that add up to one make the answer true.",
        "They say what tends to follow the text so far. No stage compares a statement with the world, so neither can "
        "this page.",
    ),
    Misconception(
        "understands",
        "The graphics card understands the sentence.",
        "Whatever processor runs it multiplies and adds numbers. Here is how often, counted from the shapes of the "
        "matrices.",
    ),
    Misconception(
        "trains",
        "Answering trains the model on what I wrote.",
        "Answering only reads the weights. What a service keeps of a conversation is another matter, and is listed "
        "under storage.",
    ),
    Misconception(
        "at-once",
        "The whole answer is decided at once.",
        "It grows token by token, and an early choice changes every distribution after it.",
    ),
)
