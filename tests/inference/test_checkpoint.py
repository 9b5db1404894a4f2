"""Reading checkpoints: the real file, Hugging Face folders as another library writes them, and refusals."""

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from inference.checkpoint import Checkpoint, LayerKind, Rotary, UnsupportedCheckpoint, load_checkpoint
from tests.inference.foreign import make_model
from tests.inference.test_architectures import CASES

INDEX = "model.safetensors.index.json"


def test_the_default_checkpoint_states_its_dimensions(checkpoint: Checkpoint) -> None:
    config = checkpoint.config
    assert (config.n_layers, config.n_heads, config.n_kv_heads, config.head_width) == (30, 9, 3, 64)
    assert (config.width, config.feed_forward_width, config.vocabulary) == (576, 1536, 49152)
    assert (config.context_length, set(config.layers), config.tied_head) == (8192, {LayerKind(Rotary(100_000))}, True)
    assert config.num_parameters == 134_515_008
    assert config.rms_epsilon == pytest.approx(1e-5)


def test_folder_hash_changes_with_a_weight_and_with_the_configuration(tmp_path: Path) -> None:
    model = make_model("Llama", num_hidden_layers=1)
    model.save_pretrained(tmp_path)
    hashes = {load_checkpoint(tmp_path).sha256}
    model.lm_head.weight.data[0, 0] += 1
    model.save_pretrained(tmp_path)
    hashes.add(load_checkpoint(tmp_path).sha256)
    model.config.rms_norm_eps = 1e-5
    model.save_pretrained(tmp_path)
    hashes.add(load_checkpoint(tmp_path).sha256)
    assert len(hashes) == 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a model of one layer; its config.json may be changed if it is put back."""
    path = tmp_path_factory.mktemp("llama")
    make_model("Llama", num_hidden_layers=1).save_pretrained(path)
    return path


REFUSALS = [
    ({"model_type": "mamba"}, "architecture 'mamba'; supported are llama, "),
    ({"rope_parameters": {"rope_type": "dynamic", "factor": 2.0}}, "rotary scaling 'dynamic'"),
    ({"rope_parameters": {"partial_rotary_factor": 0.5}}, "rotary positions on a part of the head"),
    ({"rope_parameters": {"rope_type": "linear"}}, "rope_parameters.factor is missing"),
    ({"rope_parameters": {"rope_type": "linear", "factor": 0}}, "rotary scaling by 0.0; it must be above 0"),
    ({"hidden_act": "gelu"}, "activation 'gelu'"),
    ({"num_key_value_heads": 4}, "cannot share 4 key/value heads"),
    ({"head_dim": 7}, "head width 7 is odd"),
    ({"quantization_config": {"quant_method": "gptq"}}, "quantisation 'gptq'"),
    ({"final_logit_softcapping": 30.0}, "capped logits"),
    ({"num_hidden_layers": "one"}, "config.json: num_hidden_layers is 'one'; it must be a whole number"),
    ({"num_hidden_layers": 0}, "n_layers is 0; it must be at least 1"),
    ({"hidden_size": None}, "config.json: hidden_size is missing"),
    ({"num_hidden_layers": 2}, "tensor layers.1.q is missing"),
    ({"intermediate_size": 81}, r"tensor layers.0.gate is \[80, 48\]; its model has \[81, 48\]"),
    ({"attention_bias": True}, "tensor layers.0.q.bias is missing"),
    ({"model_type": "mistral", "sliding_window": 0}, "a sliding window of 0 keys"),
]


@pytest.mark.parametrize(("changes", "feature"), REFUSALS, ids=[feature for _, feature in REFUSALS])
def test_an_unsupported_folder_is_refused_by_feature(
    folder: Path, tmp_path: Path, changes: dict[str, Any], feature: str
) -> None:
    (tmp_path / "model.safetensors").symlink_to(folder / "model.safetensors")
    stated = json.loads((folder / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(stated | changes))
    with pytest.raises(UnsupportedCheckpoint, match=feature):
        load_checkpoint(tmp_path)


def test_a_tensor_we_would_ignore_is_refused(tmp_path: Path) -> None:
    make_model("Llama", num_hidden_layers=1, attention_bias=True).save_pretrained(tmp_path)
    config = tmp_path / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"attention_bias": False}))
    with pytest.raises(
        UnsupportedCheckpoint, match=r"tensor layers\.0\.\w+\.bias, which a model of architecture llama"
    ):
        load_checkpoint(tmp_path)


def test_broken_files_of_a_folder_are_named(folder: Path, tmp_path: Path) -> None:
    weights, config, index = (tmp_path / name for name in ("model.safetensors", "config.json", INDEX))
    config.write_text("{")
    with pytest.raises(UnsupportedCheckpoint, match=r"config\.json is not valid JSON"):
        load_checkpoint(tmp_path)
    config.write_bytes((folder / "config.json").read_bytes())
    with pytest.raises(UnsupportedCheckpoint, match=r"weights missing: \*\.safetensors"):
        load_checkpoint(tmp_path)
    weights.write_bytes((folder / "model.safetensors").read_bytes()[:-100])
    with pytest.raises(UnsupportedCheckpoint, match=r"model\.safetensors is not a readable safetensors file"):
        load_checkpoint(tmp_path)
    index.write_text(json.dumps({"weight_map": {"lm_head.weight": "model-2.safetensors"}}))
    with pytest.raises(UnsupportedCheckpoint, match=r"weights missing: model-2\.safetensors"):
        load_checkpoint(tmp_path)
    index.write_text("[]")
    with pytest.raises(UnsupportedCheckpoint, match="does not map tensors to files"):
        load_checkpoint(tmp_path)


def older(stated: dict[str, Any]) -> dict[str, Any]:
    """config.json as it was spelled before everything rotary stood in one object."""
    rotary = stated.pop("rope_parameters")
    if "full_attention" in rotary:
        stated["rope_local_base_freq"] = rotary["sliding_attention"]["rope_theta"]
        stated["sliding_window_pattern"] = 6
        del stated["layer_types"]
        rotary = rotary["full_attention"]
    stated["rope_theta"] = rotary.pop("rope_theta")
    kind = rotary.pop("rope_type")
    return stated | ({} if kind == "default" else {"rope_scaling": {"type": kind, **rotary}})


@pytest.mark.parametrize("name", ["llama, grouped", "llama, llama3 scaling", "llama, yarn scaling", "gemma3"])
def test_older_spellings_mean_the_same(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    make_model(case.architecture, **case.changes).save_pretrained(tmp_path)
    newer = load_checkpoint(tmp_path).config
    config = tmp_path / "config.json"
    config.write_text(json.dumps(older(json.loads(config.read_text()))))
    assert load_checkpoint(tmp_path).config == newer


GGUF_REFUSALS: list[tuple[str, dict[str, Any], str]] = [
    ("gpt2", {}, "architecture 'gpt2'; supported are llama, "),
    ("llama", {"attention.head_count": None}, "llama.attention.head_count is missing"),
    ("llama", {"attention.head_count": 0}, "llama.attention.head_count is 0; it must be a whole number, 1 at least"),
    ("llama", {"expert_count": 8}, "mixture of experts"),
    ("llama", {"rope.dimension_count": 2}, "rotary positions on a part of the head"),
    ("llama", {"attention.value_length": 4}, "values of another width than keys"),
    ("llama", {"rope.scaling.type": "longrope"}, "rotary scaling 'longrope'"),
    ("llama", {"rope.scaling.type": "yarn", "rope.scaling.yarn_log_multiplier": 0.1}, "yarn_log_multiplier"),
    ("llama", {"attention.scale": 0.5}, r"a scale of the model's own \(attention.scale\)"),
    ("llama", {"block_count": 1}, "tensor final_norm is missing"),
    ("qwen2", {"attention.sliding_window": 4}, "a sliding window in qwen2, whose files do not say in which layers"),
    ("gemma3", {}, "gemma3.attention.sliding_window is missing"),
    ("gemma3", {"attention.sliding_window": 4, "final_logit_softcapping": 30.0}, "capped logits"),
    ("llama", {"/split.count": 2}, "a GGUF file in parts"),
]


@pytest.mark.parametrize(("architecture", "changes", "feature"), GGUF_REFUSALS)
def test_an_unsupported_gguf_is_refused_by_feature(
    tmp_path: Path, architecture: str, changes: dict[str, Any], feature: str
) -> None:
    path = tmp_path / "odd.gguf"
    writer = gguf.GGUFWriter(path, architecture)
    stated: dict[str, Any] = {
        "block_count": 0, "context_length": 64, "embedding_length": 32, "feed_forward_length": 32,
        "attention.head_count": 4, "attention.layer_norm_rms_epsilon": 1e-5,
    }  # fmt: skip
    kinds = {int: gguf.GGUFValueType.UINT32, float: gguf.GGUFValueType.FLOAT32, str: gguf.GGUFValueType.STRING}
    for name, value in (stated | changes).items():
        if value is not None:
            key = name[1:] if name.startswith("/") else f"{architecture}.{name}"
            writer.add_key_value(key, value, kinds[type(value)])
    writer.add_tensor("token_embd.weight", np.zeros((4, 32), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(UnsupportedCheckpoint, match=feature):
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
