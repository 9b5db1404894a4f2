"""Every supported architecture against another library: tiny random models, from a folder and from GGUF, in float32."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from inference.checkpoint import Checkpoint, load_checkpoint
from inference.model.decoder import Decoder
from inference.query import Query
from inference.views import VIEWS, Trace
from tests.inference.foreign import make_model, write_gguf
from tests.inference.sequences import new_sequence

TOKENS = [3, 17, 5, 5, 90, 41, 2, 88, 60, 11, 12, 34, 71, 8, 55, 23, 9, 64, 30, 77]
PROMPT = 13
"""Tokens read at once; the others one by one, as an answer is."""


@dataclass(frozen=True)
class Case:
    """A tiny model as the other library describes it."""

    architecture: str
    """The other library's name of it."""
    changes: dict[str, Any]
    gguf: str | None = None
    """Name of the architecture in GGUF; None: such files cannot say it."""
    shards: str = "5GB"
    """How large a file of a folder may be."""


STRETCHED = {"rope_theta": 5000.0, "factor": 4.0, "original_max_position_embeddings": 64}
CASES = {
    "llama, grouped": Case("Llama", {}, "llama"),
    "llama, one layer, tied": Case("Llama", {"num_hidden_layers": 1, "tie_word_embeddings": True}, "llama"),
    "llama, seven layers, wide heads, in shards": Case(
        "Llama", {"num_hidden_layers": 7, "num_key_value_heads": 6, "head_dim": 16}, "llama", shards="20KB"
    ),
    "llama, all biases": Case("Llama", {"attention_bias": True, "mlp_bias": True}, "llama"),
    "llama, linear scaling": Case("Llama", {"rope_parameters": {"rope_type": "linear", **STRETCHED}}, "llama"),
    "llama, llama3 scaling": Case(
        "Llama",
        {"rope_parameters": {"rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0, **STRETCHED}},
        "llama",
    ),
    "llama, yarn scaling": Case(
        "Llama", {"head_dim": 32, "rope_parameters": {"rope_type": "yarn", **STRETCHED}}, "llama"
    ),
    "llama, yarn with all its settings": Case(
        "Llama",
        {
            "head_dim": 32,
            "rope_parameters": {
                "rope_type": "yarn",
                "attention_factor": 0.9,
                "beta_fast": 4.0,
                "beta_slow": 0.5,
                "truncate": False,
                **STRETCHED,
            },
        },
    ),
    "mistral, sliding window": Case("Mistral", {"sliding_window": 6}, "llama"),
    "qwen2": Case("Qwen2", {}, "qwen2"),
    "qwen2, window in upper layers": Case(
        "Qwen2", {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1}
    ),
    "qwen3": Case("Qwen3", {"head_dim": 16, "tie_word_embeddings": True}, "qwen3"),
    "smollm3": Case("SmolLM3", {"num_hidden_layers": 5}, "smollm3"),
    "smollm3, other layers without positions": Case("SmolLM3", {"no_rope_layers": [0, 1, 0]}),
    "gemma3": Case(
        "Gemma3",
        {
            "num_hidden_layers": 7,
            "head_dim": 16,
            "query_pre_attn_scalar": 16,
            "sliding_window": 6,
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 50000.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 5000.0},
            },
        },
        "gemma3",
    ),
}
IN_GGUF = {name: case for name, case in CASES.items() if case.gguf is not None}  # the rest it has no way to say


def expected_logits(model: Any) -> torch.Tensor:
    """After the prompt and after every token that follows it, [positions, vocabulary]."""
    with torch.inference_mode():
        logits: torch.Tensor = model(torch.tensor([TOKENS])).logits[0]
    return logits[PROMPT - 1 :]


def our_logits(checkpoint: Checkpoint, kernel: str = "float32") -> torch.Tensor:
    sequence = new_sequence(Decoder.load(checkpoint, device="cpu", kernel=kernel), num_blocks=1)
    return torch.stack([sequence.feed(TOKENS[:PROMPT]), *(sequence.feed([token]) for token in TOKENS[PROMPT:])])


@pytest.fixture(scope="module", params=list(CASES.values()), ids=list(CASES))
def case(request: pytest.FixtureRequest) -> Case:
    chosen: Case = request.param
    return chosen


@pytest.fixture(scope="module")
def model(case: Case) -> Any:
    return make_model(case.architecture, **case.changes)


def test_a_folder_computes_what_the_other_library_computes(case: Case, model: Any, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path, max_shard_size=case.shards)
    assert (tmp_path / "model.safetensors.index.json").exists() == (case.shards != "5GB")
    assert torch.allclose(our_logits(load_checkpoint(tmp_path)), expected_logits(model), atol=1e-4, rtol=0)


@pytest.mark.parametrize("case", IN_GGUF.values(), ids=list(IN_GGUF), indirect=True)
def test_gguf_computes_what_the_other_library_computes(case: Case, model: Any, tmp_path: Path) -> None:
    assert case.gguf is not None
    path = tmp_path / "tiny.gguf"
    write_gguf(path, case.gguf, model)
    assert torch.allclose(our_logits(load_checkpoint(path)), expected_logits(model), atol=1e-4, rtol=0)


def test_parts_add_up_and_can_be_off_and_kept_rows_are_what_their_inputs_give(
    case: Case, model: Any, tmp_path: Path
) -> None:
    """Whatever the layers do beside the plain: biases, norms of updates, windows, scaled embeddings."""
    model.save_pretrained(tmp_path)
    decoder = Decoder.load(load_checkpoint(tmp_path), device="cpu", kernel="float32")
    sequence = new_sequence(decoder, num_blocks=1)
    sequence.feed(TOKENS[:PROMPT])
    logits = sequence.feed(TOKENS[PROMPT : PROMPT + 1])
    trace = Trace(decoder, sequence.cache, sequence.residuals, [0], TOKENS[: PROMPT + 2], PROMPT)
    parts = VIEWS["attribution"](trace, Query(step=1))
    assert parts.info["logit"] == pytest.approx(float(logits[TOKENS[PROMPT + 1]]), abs=1e-5)
    assert abs(parts.info["rounding"]) <= 1e-5 * max(1.0, parts.info["sum_of_sizes"])
    everything = ",".join(map(str, range(decoder.config.n_layers)))
    for everywhere in (False, True):
        bare = VIEWS["ablation"](trace, Query(step=1, layers=everything, everywhere=everywhere))
        alone = decoder.logits(trace.states(0, PROMPT, PROMPT + 1))[0]
        assert torch.allclose(torch.from_numpy(bare.tensors["logits"]), alone[bare.info["token_ids"]], atol=1e-5)
        off = VIEWS["ablation"](trace, Query(step=1, feed_forwards="0", everywhere=everywhere)).info
        assert off["divergence"] > 0
    kept = VIEWS["kv_cache"](trace, Query(step=1)).info
    assert kept["largest_row_difference"] == 0
    assert kept["largest_difference"] <= 1e-5
