"""What a checkpoint's authors say about choosing its tokens: the defaults of requests that leave a parameter open.

Of a folder generation_config.json, of a GGUF file the fields `general.sampling.*`. Never imports torch.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from inference.checkpoint.gguf_reader import open_gguf
from inference.checkpoint.stated import Stated
from inference.checkpoint.unsupported import UnsupportedCheckpoint
from inference.messages import Sampling
from inference.parameters import validate

Defaults = dict[str, float]
"""Fields of `Sampling` that the checkpoint states."""

_FOLDER_FILE = "generation_config.json"
_FOLDER_FIELDS = {name: name for name in ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")}
_GGUF_FIELDS = {
    "temp": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "penalty_repeat": "repetition_penalty",
}
_DIGITS = 7  # what a float32, as GGUF keeps these, tells of a decimal number


def sampling_defaults(path: Path) -> Defaults:
    """Of a GGUF file or a Hugging Face folder. Raises UnsupportedCheckpoint, naming the field, for a value that no
    request could ask for."""
    if not path.is_dir():
        find = open_gguf(path).value
        prefix = "general.sampling."
        return _read(Stated(f"metadata field {prefix}", lambda name: find(prefix + name)), _GGUF_FIELDS)
    stated = Stated(f"{_FOLDER_FILE}: ", _content(path / _FOLDER_FILE).get)
    found = _read(stated, _FOLDER_FIELDS)
    # Without sampling the most probable token is taken, whatever else stands there.
    return found if stated.flag("do_sample", True) else found | {"temperature": 0.0}


def _content(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UnsupportedCheckpoint(f"{file.name} is not valid JSON: {error}") from error
    if not isinstance(content, dict):
        raise UnsupportedCheckpoint(f"{file.name} is not an object")
    return content


def _read(stated: Stated, fields: dict[str, str]) -> Defaults:
    found: Defaults = {}
    for name, ours in fields.items():
        if not stated.states(name):
            continue
        read: Callable[[str], float] = stated.whole if ours == "top_k" else stated.number
        value = read(name)
        found[ours] = value if ours == "top_k" else float(f"{value:.{_DIGITS}g}")
        if errors := validate(Sampling(**{ours: found[ours]}), vocabulary=1):  # type: ignore[arg-type]
            raise UnsupportedCheckpoint(f"{stated.named(name)} {errors[0].message}")
    return found
