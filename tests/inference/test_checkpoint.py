"""Reading checkpoints: the real file, Hugging Face folders as another library writes them, and refusals."""

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch

from inference.checkpoint import Checkpoint, UnsupportedCheckpoint, load_checkpoint
from inference.model.decoder import Decoder
from tests.inference.sequences import new_sequence

TOKENS = [3, 17, 5, 5, 90, 41, 2, 88, 60, 11, 12]


def test_the_default_checkpoint_states_its_dimensions(checkpoint: Checkpoint) -> None:
    config = checkpoint.config
    assert (config.n_layers, config.n_heads, config.n_kv_heads, config.head_width) == (30, 9, 3, 64)
    assert (config.width, config.feed_forward_width, config.vocabulary) == (576, 1536, 49152)
    assert (config.context_length, config.rope_base, config.tied_head) == (8192, 100_000, True)
    assert config.rms_epsilon == pytest.approx(1e-5)


@pytest.fixture(scope="module")
def llama() -> Any:
    """A maker of tiny random Llamas by another library."""
    from transformers import LlamaConfig, LlamaForCausalLM

    def make(**changes: Any) -> Any:
        torch.manual_seed(7)
        stated = dict(
            vocab_size=97,
            hidden_size=48,
            intermediate_size=80,
            num_hidden_layers=3,
            num_attention_heads=6,
            num_key_value_heads=2,
            max_position_embeddings=256,
            rope_theta=5000.0,
            rms_norm_eps=1e-6,
            initializer_range=0.3,
        )
        return LlamaForCausalLM(LlamaConfig(**(stated | changes))).eval()

    return make


@pytest.mark.parametrize(
    ("changes", "shards"),
    [
        ({}, "5GB"),
        ({"num_hidden_layers": 1, "tie_word_embeddings": True}, "5GB"),
        ({"num_hidden_layers": 7, "num_key_value_heads": 6, "head_dim": 16}, "20KB"),
    ],
    ids=["grouped", "one layer, tied", "seven layers, wide heads, in shards"],
)
def test_a_folder_computes_what_the_other_library_computes(
    llama: Any, tmp_path: Path, changes: dict[str, Any], shards: str
) -> None:
    model = llama(**changes)
    model.save_pretrained(tmp_path, max_shard_size=shards)
    assert (tmp_path / "model.safetensors.index.json").exists() == (shards == "20KB")
    with torch.inference_mode():
        expected = model(torch.tensor([TOKENS])).logits[0]
    decoder = Decoder.load(load_checkpoint(tmp_path), device="cpu", kernel="float32")
    sequence = new_sequence(decoder, num_blocks=1)
    logits = [sequence.feed(TOKENS[:7]), *(sequence.feed([token]) for token in TOKENS[7:])]
    assert torch.allclose(torch.stack(logits), expected[6:], atol=1e-4, rtol=0)


def test_folder_hash_changes_with_a_weight(llama: Any, tmp_path: Path) -> None:
    model = llama(num_hidden_layers=1)
    model.save_pretrained(tmp_path)
    before = load_checkpoint(tmp_path).sha256
    model.lm_head.weight.data[0, 0] += 1
    model.save_pretrained(tmp_path)
    assert load_checkpoint(tmp_path).sha256 != before


@pytest.mark.parametrize(
    ("changes", "feature"),
    [
        ({"model_type": "mamba"}, "architecture 'mamba'"),
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 5000.0}}, "scaled rotary positions"),
        ({"hidden_act": "gelu"}, "activation 'gelu'"),
        ({"num_key_value_heads": 4}, "cannot share 4 key/value heads"),
    ],
)
def test_an_unsupported_folder_is_refused_by_feature(
    llama: Any, tmp_path: Path, changes: dict[str, Any], feature: str
) -> None:
    llama(num_hidden_layers=1).save_pretrained(tmp_path)
    config = tmp_path / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | changes))
    with pytest.raises(UnsupportedCheckpoint, match=feature):
        load_checkpoint(tmp_path)


def test_a_tensor_we_would_ignore_is_refused(llama: Any, tmp_path: Path) -> None:
    llama(num_hidden_layers=1, attention_bias=True).save_pretrained(tmp_path)
    with pytest.raises(UnsupportedCheckpoint, match=r"self_attn\.\w+_proj\.bias"):
        load_checkpoint(tmp_path)


@pytest.mark.parametrize("architecture", ["gpt2", "llama"])
def test_an_unsupported_gguf_is_refused_by_feature(tmp_path: Path, architecture: str) -> None:
    path = tmp_path / "odd.gguf"
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_tensor("token_embd.weight", np.zeros((4, 32), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    missing = "architecture 'gpt2'" if architecture == "gpt2" else "llama.attention.head_count is missing"
    with pytest.raises(UnsupportedCheckpoint, match=missing):
        load_checkpoint(path)


def test_nothing_there_and_nonsense_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no checkpoint at"):
        load_checkpoint(tmp_path / "absent.gguf")
    (tmp_path / "noise.gguf").write_bytes(b"not a model at all" * 9)
    with pytest.raises(UnsupportedCheckpoint, match="not a readable GGUF file"):
        load_checkpoint(tmp_path / "noise.gguf")
    with pytest.raises(UnsupportedCheckpoint, match=r"without config\.json"):
        load_checkpoint(tmp_path)


def test_reading_a_checkpoint_does_not_import_torch(checkpoint: Checkpoint) -> None:
    import subprocess
    import sys

    program = f"""
import sys
from pathlib import Path
from inference.checkpoint import load_checkpoint
load_checkpoint(Path({str(checkpoint.path)!r}))
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[2])
