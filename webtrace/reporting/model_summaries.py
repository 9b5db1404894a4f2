"""What the stages inside the model say about a request, from tokens to the cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from inference import messages as m
from inference.messages import Sampling
from inference.text import Tokenizer
from webtrace import prompt as prompts
from webtrace.prompt import Prompt
from webtrace.reporting import model_reports
from webtrace.reporting.service_summaries import counted, shorten
from webtrace.reporting.timing import Account

SHOWN_TOKENS = 512
SHOWN_MERGES = 200

# ---------------------------------------------------------------- language to numbers


def tokens(account: Account, made: Prompt, tokenizer: Tokenizer) -> None:
    ids = made.token_ids
    text = "".join(segment.text for segment in made.segments)
    shown = tokenizer.describe(ids[:SHOWN_TOKENS])
    rows = [
        model_reports.Piece(position, piece.id, piece.text, piece.kind, source)
        for position, (piece, source) in enumerate(zip(shown, prompts.sources(made), strict=False))
    ]
    span = prompts.user_span(made)
    account.say(
        input=f"{len(text):,} characters, {len(text.encode()):,} bytes",
        operation=f"{_splitting(tokenizer)}; yours are tokens {span[0]} to {span[1] - 1}",
        output=f"{len(ids):,} tokens",
        data=model_reports.TokensReport(
            num_tokens=len(ids),
            num_characters=len(text),
            num_bytes=len(text.encode()),
            user_span=span,
            pieces=rows,
            merges=_merges(tokenizer.words(ids, *span), tokenizer),
        ),
    )


def _splitting(tokenizer: Tokenizer) -> str:
    return "choose the likeliest split" if tokenizer.is_unigram else "split into words and merge pairs"


def _merges(words: Sequence[str], tokenizer: Tokenizer) -> list[tuple[str, str, str]]:
    """The merges of each word, in order of appearance."""
    found: list[tuple[str, str, str]] = []
    for word in words:
        for one in tokenizer.merges(word):
            found.append((one.left, one.right, one.merged))
            if len(found) == SHOWN_MERGES:
                return found
    return found


def token_ids(account: Account, ids: Sequence[int], tokenizer: Tokenizer) -> None:
    account.say(
        input=f"{len(ids):,} tokens",
        operation=f"look each up in a vocabulary of {len(tokenizer):,}",
        output=f"{' '.join(map(str, ids[-8:]))} (the last {min(8, len(ids))})",
        data=model_reports.TokenIdsReport(
            vocabulary=len(tokenizer),
            num_distinct=len(set(ids)),
            smallest=min(ids),
            largest=max(ids),
            ids=list(ids[:SHOWN_TOKENS]),
        ),
    )


# ---------------------------------------------------------------- inside the model


def model_stage(time: m.StageTime, model: dict[str, Any], prefilled: m.Prefilled) -> Account:
    """Stages 8-18, over all layers of the prompt's computed positions."""
    positions = prefilled.num_computed
    layers = model["n_layers"]
    given, did, gave, shape = _MODEL_LINES[time.stage](model, positions, positions + prefilled.num_reused)
    account = Account()
    account.say(
        input=given,
        operation=did,
        output=gave,
        data=model_reports.ModelStageReport(
            layers=1 if time.stage == "embeddings" else layers,
            positions=positions,
            multiply_adds=time.multiply_adds,
            shape=shape,
        ),
    )
    return account


def _divide_by(divisor: float) -> str:
    return f"divide by √{divisor**2:.0f} = {divisor:.4g}"


def _forbid(windows: Sequence[int | None]) -> str:
    seen = sorted({window for window in windows if window is not None})
    some = "" if None not in windows else "in some layers "
    return "forbid every key after its query" + (f", {some}all but the last {seen[-1]:,}" if seen else "")


def _allowed_cells(windows: Sequence[int | None], positions: int, keys: int) -> str:
    """A number, or the least and the most where layers differ."""
    queries = range(keys - positions, keys)
    counts = {sum(min(query + 1, window or keys) for query in queries) for window in set(windows)}
    return f"{min(counts):,}" + (f" to {max(counts):,}" if len(counts) > 1 else "")


# stage → (model, positions computed, keys) → input, operation, output, shape
_MODEL_LINES: dict[str, Any] = {
    "embeddings": lambda d, p, k: (
        f"{p} token ids", f"take {p} rows of the table [{d['vocabulary']}, {d['width']}]",
        f"{p} vectors of {d['width']} numbers", f"[{p}, {d['width']}]",
    ),
    "positions": lambda d, p, k: (
        f"queries and keys of {p} positions", f"rotate {d['head_width'] // 2} pairs of numbers a head by position",
        f"the same {d['n_heads']} + {d['n_kv_heads']} heads, rotated", f"[{p}, {d['n_heads']}, {d['head_width']}]",
    ),
    "qkv": lambda d, p, k: (
        f"{p} normalised vectors of {d['width']}", "three matrix products in every layer",
        f"{d['n_heads']} query, {d['n_kv_heads']} key and value heads of {d['head_width']}",
        f"[{p}, {d['n_heads']} + 2×{d['n_kv_heads']}, {d['head_width']}]",
    ),
    "scores": lambda d, p, k: (
        f"{p} queries, {k} keys, {d['n_heads']} heads", f"dot products of {d['head_width']} numbers",
        f"{p * k * d['n_heads']:,} scores a layer", f"[{d['n_heads']}, {p}, {k}]",
    ),
    "scale": lambda d, p, k: (
        f"{p * k * d['n_heads']:,} scores a layer", _divide_by(d["score_divisor"]),
        "scaled scores", f"[{d['n_heads']}, {p}, {k}]",
    ),
    "mask": lambda d, p, k: (
        f"{p} queries × {k} keys", _forbid(d["windows"]),
        f"{_allowed_cells(d['windows'], p, k)} of {p * k:,} cells allowed", f"[{p}, {k}]",
    ),
    "softmax": lambda d, p, k: (
        "allowed scores", "exponentials divided by their sum, row by row",
        f"{p * d['n_heads']:,} rows a layer that sum to 1", f"[{d['n_heads']}, {p}, {k}]",
    ),
    "weighted_sum": lambda d, p, k: (
        f"weights over {k} keys and their values", "weighted sum",
        f"{d['n_heads']} vectors of {d['head_width']} a position", f"[{p}, {d['n_heads']}, {d['head_width']}]",
    ),
    "heads": lambda d, p, k: (
        f"{d['n_heads']} head outputs of {d['head_width']}", f"join to {d['n_heads'] * d['head_width']} and project",
        f"an update of {d['width']} numbers a position", f"[{p}, {d['width']}]",
    ),
    "residual_norm": lambda d, p, k: (
        f"states and updates of {d['width']} numbers", "add; divide by the root mean square",
        f"new states, {2 * d['n_layers'] + 1} times", f"[{p}, {d['width']}]",
    ),
    "feed_forward": lambda d, p, k: (
        f"{p} normalised vectors of {d['width']}", f"gate × up in {d['feed_forward_width']} neurons, then down",
        f"an update of {d['width']} numbers a position", f"[{p}, {d['feed_forward_width']}]",
    ),
}  # fmt: skip


# ---------------------------------------------------------------- the next word


def logits(prefilled: m.Prefilled, tokenizer: Tokenizer, width: int) -> Account:
    found = prefilled.logits

    def named(rows: Sequence[Sequence[Any]]) -> list[tuple[int, str, float]]:
        return [(token, tokenizer.token_text(token), value) for token, value in rows]

    top = named(found["top"])
    account = Account()
    account.say(
        input=f"the last position's state, {width} numbers",
        operation=f"product with the matrix [{len(tokenizer)}, {width}]",
        output=f"{len(tokenizer):,} logits; the largest, {_number(top[0][2])}, for {shorten(top[0][1])}",
        data=model_reports.LogitsReport(
            vocabulary=len(tokenizer),
            top=top,
            bottom=named(found["bottom"]),
            minimum=found["min"],
            maximum=found["max"],
            mean=found["mean"],
            std=found["std"],
        ),
    )
    return account


def probabilities(step: m.Step) -> Account:
    top = sorted(step.candidates, key=lambda one: -one.raw_probability)
    others = max(0.0, 1 - sum(one.raw_probability for one in top))
    account = Account()
    account.say(
        input="raw logits",
        output=f"{shorten(top[0].text)} has {top[0].raw_probability * 100:.3g}\u202f%; entropy {step.entropy:.3g} nats"
        if top
        else "",
        data=model_reports.ProbabilitiesReport(top=top, entropy_nats=step.entropy, others_mass=others),
    )
    return account


_FILTERS = {"logit_bias": "logit bias", "top_k": "top-k", "top_p": "top-p", "min_p": "min-p"}


def sampling(step: m.Step, parameters: Sampling) -> Account:
    active = [row for row in step.ledger.filters if row.active]
    left = active[-1].num_survivors if active else None
    account = Account()
    account.say(
        input="raw logits",
        operation="take the largest"
        if step.ledger.greedy
        else f"{', '.join(_FILTERS.get(row.name, row.name) for row in active)}; draw",
        output=f"{shorten(step.token_text)} (id {step.token}), rank {step.rank}"
        + ("" if left is None or step.ledger.greedy else f", one of {left:,} that were left"),
        data=model_reports.SamplingReport(
            parameters=msgspec.to_builtins(parameters, str_keys=True),
            seed=parameters.seed or 0,
            ledger=step.ledger,
            token=step.token,
            token_text=step.token_text,
            rank=step.rank,
        ),
    )
    return account


def append(num_steps: int, finish_reason: str, stop: str | None) -> Account:
    account = Account()
    account.say(
        input=counted(num_steps, "chosen token"),
        operation=f"{counted(num_steps, 'time')}: append, run the network on the new token",
        output=f"ended by {finish_reason.replace('_', ' ')}" + (f" at {shorten(stop)}" if stop else ""),
        data=model_reports.AppendReport(num_steps=num_steps, finish_reason=finish_reason, stop=stop),
    )
    return account


def kv_cache(data: model_reports.KVCacheReport) -> Account:
    account = Account()
    account.say(
        input=f"{data.num_prompt_tokens} prompt positions, {data.num_prefix_tokens} of them already cached",
        operation=f"compute {data.rows_computed:,} rows of K and V, read {data.rows_reused:,} again",
        output=f"{data.num_blocks} of {data.num_blocks_total} blocks of {data.block_size}, {data.num_bytes:,} bytes",
        data=data,
    )
    return account


def _number(value: float | None) -> str:
    return "not a number" if value is None else f"{value:.3g}"
