"""Finds the vocabulary of a checkpoint.

Going through the 100,000 entries of a GGUF file's vocabulary takes seconds, so the result is kept as JSON in a cache
folder, keyed by the file's name, size and modification time.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import msgspec

from inference.text import folder_vocabulary, gguf_vocabulary
from inference.text.vocabulary import Vocabulary

CACHE_FORMAT = 4


def load_vocabulary(path: Path, cache_folder: Path | None = None) -> Vocabulary:
    """From a GGUF file or a Hugging Face folder. Raises UnsupportedTokenizer,
    UnsupportedCheckpoint, FileNotFoundError."""
    if path.is_dir():
        return folder_vocabulary.read(path)
    if not path.is_file():
        raise FileNotFoundError(f"No checkpoint at {path}.")
    return gguf_vocabulary.read(path) if cache_folder is None else _from_cache(path, cache_folder)


def _from_cache(path: Path, cache_folder: Path) -> Vocabulary:
    stat = path.stat()
    key = f"{CACHE_FORMAT}:{path.name}:{stat.st_size}:{stat.st_mtime_ns}"
    cached = cache_folder / f"tokenizer-{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"
    try:
        return msgspec.json.decode(cached.read_bytes(), type=Vocabulary)
    except (OSError, msgspec.DecodeError):
        vocabulary = gguf_vocabulary.read(path)
    try:
        cache_folder.mkdir(parents=True, exist_ok=True)
        unfinished = cached.with_suffix(f".{os.getpid()}")
        unfinished.write_bytes(msgspec.json.encode(vocabulary))
        unfinished.replace(cached)  # whole or not at all, also when two processes start together
    except OSError:
        pass  # a data folder that cannot be written only costs the next start its time
    return vocabulary
