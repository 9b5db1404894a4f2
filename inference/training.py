"""Where weights come from, once: a real loss, its gradients and one step of gradient descent on a throw-away copy.

    python -m inference.training CHECKPOINT

A program of its own, so that the copy, its gradients and their memory end with it. Prints one JSON object.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from inference.checkpoint import Checkpoint, ModelConfig, load_checkpoint
from inference.model.attention import (
    apply_mask,
    causal_mask,
    dot_products,
    join_heads,
    softmax,
    split_heads,
    weighted_sum,
)
from inference.model.feed_forward import gated_activation
from inference.model.rope import as_pairs, rotary_table
from inference.text import Tokenizer

TEXT, TARGET = "The sky is", " blue"
LEARNING_RATE = 1e-4
TOP = 5
NICE = 15  # answers come first

Weights = dict[str, Tensor]


def train_once(
    checkpoint: Checkpoint, token_ids: Sequence[int], target: int, rate: float = LEARNING_RATE
) -> dict[str, Any]:
    """Loss of `target` after `token_ids`, gradients, and the loss after w <- w - rate * dloss/dw for every weight.

    loss = -ln softmax(logits)[target], in nats. A gradient's length is the root of the sum of its squares over a part.
    """
    config = checkpoint.config
    weights = {name: torch.tensor(checkpoint.tensor(name)).requires_grad_() for name in config.tensor_shapes()}
    before = logits(config, weights, token_ids)
    loss = torch.nn.functional.cross_entropy(before[None], torch.tensor([target]))
    loss.backward()  # type: ignore[no-untyped-call]
    lengths = {name: float(weight.grad.norm()) for name, weight in weights.items() if weight.grad is not None}
    with torch.no_grad():
        for weight in weights.values():
            if weight.grad is not None:
                weight -= rate * weight.grad
        after = logits(config, weights, token_ids)
        new_loss = torch.nn.functional.cross_entropy(after[None], torch.tensor([target]))
    return {
        "token_ids": list(token_ids),
        "target": target,
        "learning_rate": rate,
        "num_weights": sum(weight.numel() for weight in weights.values()),
        "loss_before": float(loss.detach()),
        "loss_after": float(new_loss),
        "top_before": _top(before),
        "top_after": _top(after),
        "gradients": {
            "attention": [_joined(lengths, number, ("q", "k", "v", "output")) for number in range(config.n_layers)],
            "feed_forward": [_joined(lengths, number, ("gate", "up", "down")) for number in range(config.n_layers)],
        },
        "embedding_gradient": lengths["embedding"],
        "gradient": math.hypot(*lengths.values()),
    }


def logits(config: ModelConfig, weights: Weights, token_ids: Sequence[int]) -> Tensor:
    """[vocabulary] after the last token, by the decoder's own steps, in float32 and open to gradients."""
    states = weights["embedding"][list(token_ids)] * config.embedding_multiplier
    for number in range(config.n_layers):
        layer = {
            name.removeprefix(at): one for name, one in weights.items() if name.startswith(at := f"layers.{number}.")
        }
        states = states + _attend(config, number, layer, _norm(config, states, layer["attention_norm"]))
        states = states + _feed_forward(config, layer, _norm(config, states, layer["feed_forward_norm"]))
    last = _norm(config, states[-1], weights["final_norm"])
    return weights["embedding" if config.tied_head else "head"] @ last


def _attend(config: ModelConfig, number: int, layer: Weights, normed: Tensor) -> Tensor:
    kind, positions = config.layers[number], len(normed)
    q, k, v = (_linear(layer, name, normed).view(positions, -1, config.head_width) for name in "qkv")
    if config.query_key_norm:
        q, k = _norm(config, q, layer["q_norm"]), _norm(config, k, layer["k_norm"])
    if kind.rotary is not None:
        turns = rotary_table(positions, config.head_width, kind.rotary)
        q, k = (torch.view_as_real(as_pairs(one.contiguous()) * turns).flatten(-2) for one in (q, k))
    keys, values = k.transpose(0, 1), v.transpose(0, 1)
    scores = dot_products(split_heads(q, config.n_kv_heads), keys) / config.score_divisor
    allowed = causal_mask(0, positions, positions, window=kind.window)
    weights = softmax(apply_mask(scores.view(config.n_heads, positions, -1), allowed)).view_as(scores)
    update = _linear(layer, "output", join_heads(weighted_sum(weights, values), positions))
    return _norm(config, update, layer["attention_post_norm"]) if config.post_norm else update


def _feed_forward(config: ModelConfig, layer: Weights, normed: Tensor) -> Tensor:
    activation = gated_activation(_linear(layer, "gate", normed), _linear(layer, "up", normed), config.activation)
    update = _linear(layer, "down", activation)
    return _norm(config, update, layer["feed_forward_post_norm"]) if config.post_norm else update


def _linear(layer: Weights, name: str, states: Tensor) -> Tensor:
    return torch.nn.functional.linear(states, layer[name], layer.get(f"{name}.bias"))


def _norm(config: ModelConfig, states: Tensor, weight: Tensor) -> Tensor:
    """As `RMSNorm`, which works in place where a gradient has to pass."""
    return states * torch.rsqrt(states.square().mean(dim=-1, keepdim=True) + config.rms_epsilon) * weight


def _joined(lengths: dict[str, float], number: int, names: tuple[str, ...]) -> float:
    return math.hypot(*(lengths[f"layers.{number}.{name}"] for name in names))


def _top(row: Tensor) -> list[tuple[int, float]]:
    """The most probable tokens with their probabilities."""
    shares, ids = torch.softmax(row.detach(), dim=-1).topk(TOP)
    return list(zip(ids.tolist(), shares.tolist(), strict=True))


def main() -> None:
    os.nice(NICE)
    path = Path(sys.argv[1])
    checkpoint = load_checkpoint(path)
    tokenizer = Tokenizer.load(path)
    target = tokenizer.encode(TARGET, "text")[0]
    result = train_once(checkpoint, tokenizer.encode(TEXT), target)
    shown = [token for token, _ in (*result["top_before"], *result["top_after"])]
    result["token_texts"] = {
        str(token): tokenizer.token_text(token) for token in (*result["token_ids"], target, *shown)
    }
    unread = load_checkpoint(path)  # hashed anew, from the disk
    result["sha256_before"], result["sha256_after"] = checkpoint.sha256, unread.sha256
    print(json.dumps(result))


if __name__ == "__main__":
    main()
