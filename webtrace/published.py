"""Static files as they are sent: each shortened and compressed once, in a copy that stays as it is while a server
runs."""

from __future__ import annotations

import gzip
import os
import tempfile
from hashlib import sha256
from pathlib import Path

from webtrace import esbuild

WORTH_COMPRESSING = 0.95
"""A compressed file is kept where it is smaller than this part of the file."""


def publish(path: Path, folder: Path) -> Path:
    """The file to send in place of `path`, with a compressed one (`.gz`) beside it where that is shorter.

    Named by what it was made from, so that it is made once and never changes: a running server goes on sending what
    it started with while its sources are edited.
    """
    source = path.read_bytes()
    tool = f"esbuild {esbuild.version()}" if esbuild.can_shorten(path) else ""
    target = folder / (sha256(tool.encode() + source).hexdigest()[:32] + path.suffix)
    if not target.exists():
        content = esbuild.shortened(path, source) if tool else source
        folder.mkdir(parents=True, exist_ok=True)
        compressed = gzip.compress(content, mtime=0)
        if len(compressed) < WORTH_COMPRESSING * len(content):
            _write(Path(f"{target}.gz"), compressed)
        _write(target, content)  # last: where it is, both are
    return target


def _write(path: Path, content: bytes) -> None:
    """Whole or not at all, whoever else writes the same file at the same time."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=path.name, delete=False) as file:
        file.write(content)
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)
