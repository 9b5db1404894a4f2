"""For every stage, values it must show, by the names the page gives them, each computed away from the product's views.

Stages inside the layers are looked at in one layer, head and position; the stages of the next word at one step.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from tests.browser import independent
from tests.browser.known import HEAD, PROMPT, REFERENCE, Known

Values = dict[str, Any]
POSITION = 40
"""A position of the answer few enough keys from the start that the page gives every key a row of its own."""
KEY = POSITION - 1
"""The key the page opens where none was chosen."""
STEP = POSITION - len(REFERENCE["token_ids"]) + 1
"""The step whose token was chosen from the state at POSITION."""
CLOSENESS = {"float32": 2e-4, "bfloat16": 0.05, "int8": 0.05, "int4": 0.05, "native": 2e-3}
"""How far a kernel's numbers may lie from float64 ones, as a share of the largest of their kind. The packed kernels
round activations to bfloat16 in every layer; in float32 only the order of sums differs."""


def near(known: Known, values: np.ndarray) -> list[Any]:
    """The values, each to be met within the kernel's closeness of the largest of them."""
    margin = CLOSENESS[known.kernel] * float(np.abs(values).max())
    return [pytest.approx(float(value), abs=margin) for value in values.ravel()]


def close(known: Known, value: float) -> Any:
    """One value that is the only one of its kind."""
    return near(known, np.array([value]))[0]


def numbered(name: str, values: Iterable[Any]) -> Values:
    return {f"{name}-{number}": value for number, value in enumerate(values)}


def length(vector: np.ndarray) -> float:
    return float(np.linalg.norm(vector))


def request(known: Known) -> Values:
    (frame,) = [frame for frame in known.journey.frames if PROMPT in frame]
    return {"num_bytes": len(frame.encode())}


def gateway(known: Known) -> Values:
    return {"remaining": known.remaining, "checks_passed": 8}


def prompt(known: Known) -> Values:
    length = len(REFERENCE["token_ids"])
    return {
        "num_tokens": length,
        "context_length": known.weights.context_length,
        "room_for_answer": known.weights.context_length - length,
        "tokens-user": len(PROMPT.split()),
    }


def input_safety(known: Known) -> Values:
    scores = known.safety_scores(PROMPT)
    return {f"score-{label}": pytest.approx(score, abs=1e-4) for label, score in scores.items()}


def routing(known: Known) -> Values:
    return {"queue_ms": known.stored.queue_ms}


def tokens(known: Known) -> Values:
    text = REFERENCE["prompt"]
    return {
        "num_tokens": len(REFERENCE["token_ids"]),
        "num_characters": len(text),
        "num_bytes": len(text.encode()),
    }


def token_ids(known: Known) -> Values:
    ids = REFERENCE["token_ids"]
    return {
        "vocabulary": len(known.weights.embedding),
        "num_distinct": len(set(ids)),
        "smallest": min(ids),
        "largest": max(ids),
        **numbered("id", ids),
    }


def embeddings(known: Known) -> Values:
    token = known.stored.token_ids[POSITION]
    row = known.weights.embedding[token]
    cosines = independent.cosines(known.weights.embedding, row)
    nearest = [other for other in np.argsort(-cosines)[:6].tolist() if other != token][:5]
    return {
        "id": token,
        "width": known.weights.width,
        "norm": pytest.approx(length(row), rel=1e-5),
        **{f"cosine-{other}": pytest.approx(cosines[other], abs=1e-5) for other in nearest},
    }


def positions(known: Known) -> Values:
    angle = independent.angles(POSITION, known.weights.head_width, known.weights.base)[1]
    layer = known.exact.layer
    q, k = near(known, layer.q[HEAD, POSITION]), near(known, layer.k[_shared(known), POSITION])
    return {
        "angle": pytest.approx(angle, rel=1e-6),
        "q_after_0": q[2],
        "q_after_1": q[3],
        "k_after_0": k[2],
        "k_after_1": k[3],
    }


def _shared(known: Known) -> int:
    """The key head that the query head reads."""
    return HEAD // (known.weights.n_heads // known.weights.n_kv_heads)


def qkv(known: Known) -> Values:
    layer = known.exact.layer
    shared = _shared(known)
    vectors = {"q": layer.plain_q[HEAD], "k": layer.plain_k[shared], "v": layer.v[shared]}
    return {f"norm-{name}": close(known, length(rows[POSITION])) for name, rows in vectors.items()}


def scores(known: Known) -> Values:
    layer = known.exact.layer
    raw = layer.raw[HEAD, POSITION, : POSITION + 1]
    q, k = layer.q[HEAD, POSITION], layer.k[_shared(known), KEY]
    values = near(known, raw)
    return {
        **numbered("score", values),
        "sum": values[KEY],
        "q_norm": close(known, length(q)),
        "k_norm": close(known, length(k)),
        "cosine": pytest.approx(raw[KEY] / length(q) / length(k), abs=CLOSENESS[known.kernel]),
    }


def scale(known: Known) -> Values:
    scaled = known.exact.layer.scaled[HEAD, POSITION, : POSITION + 1]
    values = near(known, scaled)
    return {
        "divisor": math.sqrt(known.weights.head_width),
        "scaled_low": values[int(scaled.argmin())],
        "scaled_high": values[int(scaled.argmax())],
        **numbered("scaled", values),
    }


def mask(known: Known) -> Values:
    size = len(known.stored.token_ids) - 1
    allowed = near(known, known.exact.layer.scaled[HEAD, POSITION, : POSITION + 1])
    return {
        "allowed": POSITION + 1,
        "forbidden": size - POSITION - 1,
        "allowed_cells": size * (size + 1) // 2,
        **{f"masked-{key}": allowed[key] for key in range(POSITION - 7, POSITION + 1)},
        **{f"masked-{key}": -math.inf for key in range(POSITION + 1, POSITION + 8)},
    }


def softmax(known: Known) -> Values:
    of_heads = known.exact.layer.weights[:, POSITION]
    row = near(known, of_heads[HEAD, : POSITION + 1])
    entropies = near(known, np.array([independent.entropy(shares) for shares in of_heads]))
    return {
        "row_sum": pytest.approx(1, abs=1e-5),
        "entropy": entropies[HEAD],
        "sink_mass": row[0],
        **numbered("weight", row),
        **numbered("entropy", entropies),
    }


def weighted_sum(known: Known) -> Values:
    layer = known.exact.layer
    output = layer.mixed[HEAD, POSITION]
    terms = layer.weights[HEAD, POSITION, : POSITION + 1] * layer.v[_shared(known), : POSITION + 1, 0]
    return {
        "norm": close(known, length(output)),
        "output-0": near(known, output)[0],
        **numbered("term", near(known, terms)),
    }


def heads(known: Known) -> Values:
    layer = known.exact.layer
    lengths = np.linalg.norm(layer.mixed[:, POSITION], axis=1)
    return {
        "norm": close(known, length(layer.attention_update[POSITION])),
        **numbered("norm", near(known, lengths)),
    }


def residual_norm(known: Known) -> Values:
    layer = known.exact.layer
    states = {
        "old": layer.old,
        "attention_update": layer.attention_update,
        "middle": layer.middle,
        "feed_forward_update": layer.feed_forward_update,
        "new": layer.new,
    }
    return {
        **numbered("norm", [close(known, float(size)) for size in known.exact.norms[:, POSITION]]),
        **{f"{name}_norm": close(known, length(rows[POSITION])) for name, rows in states.items()},
    }


def feed_forward(known: Known) -> Values:
    layer = known.exact.layer
    activation = layer.activation[POSITION]
    values = near(known, activation)
    strongest = np.argsort(-np.abs(activation))[:5].tolist()
    positive = int((layer.gate[POSITION] > 0).sum())
    return {
        "num_neurons": len(activation),
        "num_positive_gates": pytest.approx(positive, abs=math.ceil(CLOSENESS[known.kernel] * positive)),
        "activation_norm": close(known, length(activation)),
        "output_norm": close(known, length(layer.feed_forward_update[POSITION])),
        **{f"neuron-{neuron}": values[neuron] for neuron in strongest},
    }


def logits(known: Known) -> Values:
    row = known.logits(STEP)
    values = near(known, row)
    best = np.argsort(-row)[:3].tolist()
    return {
        "token_logit": values[known.answer[STEP]],
        "minimum": values[int(row.argmin())],
        "maximum": values[best[0]],
        "mean": pytest.approx(row.mean(), abs=CLOSENESS[known.kernel] * np.abs(row).max()),
        "std": close(known, float(row.std())),
        **{f"logit-{token}": values[token] for token in best},
        f"lens-{known.weights.n_layers}": pytest.approx(
            independent.softmax(row)[known.answer[STEP]], abs=CLOSENESS[known.kernel]
        ),
    }


def probabilities(known: Known) -> Values:
    row = independent.softmax(known.logits(STEP))
    best = np.argsort(-row)[:3].tolist()
    nats = independent.entropy(row)
    return {
        "entropy": pytest.approx(nats, abs=CLOSENESS[known.kernel] * max(1.0, nats)),
        **{f"raw-{token}": pytest.approx(row[token], abs=CLOSENESS[known.kernel]) for token in best},
    }


def sampling(known: Known) -> Values:
    """From the logits of a decoder of the same kernel: the last bits decide what survives and what is drawn."""
    setting = known.journey.response["sampling"]
    drawn = independent.draw(
        known.run_logits(STEP), STEP, **{name: setting[name] for name in ("seed", "temperature", "top_k", "top_p")}
    )
    assert drawn.token == known.answer[STEP]
    return {
        "seed": setting["seed"],
        "draw": drawn.uniform,
        "probability": pytest.approx(drawn.shares[drawn.token], rel=1e-4),
        **{f"survivors-{name}": number for name, number in drawn.survivors.items()},
        **{f"removed-{name}": pytest.approx(mass, abs=1e-5) for name, mass in drawn.removed.items()},
    }


def append(known: Known) -> Values:
    return {"num_steps": len(known.answer)}


def kv_cache(known: Known) -> Values:
    prompt, answer, weights = len(known.prompt), len(known.answer), known.weights
    bytes_per_position = 2 * 4 * weights.n_layers * weights.n_kv_heads * weights.head_width
    num_blocks = math.ceil((prompt + answer - 1) / 64)
    last = known.run_logits(answer - 1)
    return {
        "rows_computed": prompt + answer - 1,
        "rows_reused": sum(prompt + step for step in range(answer - 1)),
        "num_prefix_tokens": 0,
        "num_blocks": pytest.approx(num_blocks, abs=1),
        "bytes_per_position": bytes_per_position,
        "prefill_ms": known.stored.resources["prefill_ms"],
        "decode_ms": known.stored.resources["decode_ms"],
        **{f"cached-{token}": pytest.approx(last[token], abs=1e-4) for token in np.argsort(-last)[:3].tolist()},
    }


def detokenize(known: Known) -> Values:
    return {
        "num_tokens": len(known.answer),
        "num_characters": len(known.stored.text),
        "num_bytes": len(known.stored.text.encode()),
    }


def output_safety(known: Known) -> Values:
    return {"num_characters_released": len(known.stored.text), "num_characters_withheld": 0}


def stream(known: Known) -> Values:
    """What the socket received, and the moments of the steps in the log, which are told to the microsecond."""
    pieces = [event["delta"] for event in known.journey.received if event["type"] == "response.output_text.delta"]
    moments = [step["timing"]["at_ms"] for step in known.journey.steps]
    gaps = np.diff(moments).tolist()
    return {
        "num_chunks": len(pieces),
        "browser_chunks": len(pieces),
        "num_bytes": sum(len(piece.encode()) for piece in pieces),
        "inter_token_ms_median": pytest.approx(statistics.median(gaps), abs=2e-3),
        "tokens_per_second": pytest.approx(1000 * len(gaps) / (moments[-1] - moments[0]), rel=1e-5),
    }


def storage(known: Known) -> Values:
    question, answer = known.stored.messages
    return {
        "bytes-0": len(question.encode()),
        "bytes-1": len(answer.encode()),
        "bytes-2": len(known.stored.text.encode()),
    }


EXPECTED: dict[str, Callable[[Known], Values]] = {
    stage.__name__: stage
    for stage in (
        request, gateway, prompt, input_safety, routing, tokens, token_ids, embeddings, positions, qkv, scores, scale,
        mask, softmax, weighted_sum, heads, residual_norm, feed_forward, logits, probabilities, sampling, append,
        kv_cache, detokenize, output_safety, stream, storage,
    )
}  # fmt: skip
FOLDS = {"token_ids": "ids", "residual_norm": "norms"}
"""What must be unfolded to see the values of a stage."""
