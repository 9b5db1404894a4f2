"""Sampling parameters that a checkpoint states."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import pytest

from inference.checkpoint import UnsupportedCheckpoint
from inference.checkpoint.sampling_defaults import sampling_defaults
from inference.messages import AskedSampling, Sampling


def folder(path: Path, content: Any) -> Path:
    (path / "generation_config.json").write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def file(path: Path, **fields: Any) -> Path:
    writer = gguf.GGUFWriter(path / "a.gguf", "llama")
    for name, value in fields.items():
        writer.add_key_value(f"general.sampling.{name}", value, gguf.GGUFValueType.get_type(value))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path / "a.gguf"


def test_a_folder_states_them_in_generation_config(tmp_path: Path) -> None:
    assert sampling_defaults(tmp_path) == {}
    stated = {"temperature": 0.7, "top_k": 20, "top_p": 0.8, "min_p": None, "repetition_penalty": 1.05}
    others = {"do_sample": True, "eos_token_id": [1, 106], "max_length": 20}
    assert sampling_defaults(folder(tmp_path, stated | others)) == {
        "temperature": 0.7, "top_k": 20, "top_p": 0.8, "repetition_penalty": 1.05,
    }  # fmt: skip


def test_a_folder_that_wants_no_sampling_is_greedy(tmp_path: Path) -> None:
    assert sampling_defaults(folder(tmp_path, {"do_sample": False, "temperature": 0.6})) == {"temperature": 0.0}


def test_a_gguf_file_states_them_in_its_metadata(tmp_path: Path) -> None:
    """In 32 bits, which are told as the decimal number that was meant."""
    stated = file(tmp_path, temp=0.7, top_k=64, top_p=0.95, min_p=0.05, penalty_repeat=1.1)
    assert sampling_defaults(stated) == {
        "temperature": 0.7, "top_k": 64, "top_p": 0.95, "min_p": 0.05, "repetition_penalty": 1.1,
    }  # fmt: skip
    assert sampling_defaults(file(tmp_path, top_k=40)) == {"top_k": 40}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({"temperature": -1}, r"generation_config\.json: temperature must be 0 or a number"),
        ({"temperature": "hot"}, "temperature is 'hot'; it must be a finite number"),
        ({"top_p": 0}, "top_p must be above 0"),
        ({"top_k": 2.5}, r"top_k is 2\.5; it must be a whole number"),
        ({"min_p": 3}, "min_p must be between 0 and 1, not 3"),
        ({"repetition_penalty": 0}, "repetition_penalty must be between"),
        ({"do_sample": 1}, "do_sample is 1; it must be true or false"),
        ([], "is not an object"),
        ("{", r"generation_config\.json is not valid JSON"),
    ],
)
def test_bad_values_are_refused_by_name(content: Any, problem: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedCheckpoint, match=problem):
        sampling_defaults(folder(tmp_path, content))


def test_bad_values_of_a_gguf_file_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedCheckpoint, match=r"metadata field general\.sampling\.temp must be 0 or"):
        sampling_defaults(file(tmp_path, temp=-0.5))


def test_what_a_request_says_wins_even_where_it_is_zero() -> None:
    defaults = Sampling(temperature=0.7, top_k=20)
    assert AskedSampling().over(defaults) == defaults
    assert AskedSampling(temperature=0, stop=[]).over(defaults) == Sampling(temperature=0, top_k=20)
