"""Static files as they are sent: our scripts and styles without what only people read, each file compressed once."""

from __future__ import annotations

import gzip
import os
import tempfile
from collections.abc import Callable
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

from rcssmin import cssmin
from rjsmin import jsmin

MINIFIERS: dict[str, Callable[[str], str]] = {".js": jsmin, ".css": cssmin}
"""They take out comments and spaces and leave every name as it is: what a browser's tools show can still be read."""
VERSIONS = f"rjsmin {version('rjsmin')}, rcssmin {version('rcssmin')}"
WORTH_COMPRESSING = 0.95
"""A compressed file is kept where it is smaller than this part of the file."""


def minified(path: Path) -> bytes:
    """A script or style of ours without comments and needless spaces; other files as they are."""
    minify = MINIFIERS.get(path.suffix)
    return path.read_bytes() if minify is None else minify(path.read_text()).encode()


def publish(path: Path, folder: Path, *, ours: bool) -> Path:
    """The file to send in place of `path`, with a compressed one (`.gz`) beside it where that is shorter.

    Named by what it is made of, so that it is made once and never changes: a running server goes on sending what it
    started with while its sources are edited.
    """
    source = path.read_bytes()
    name = sha256(source + (VERSIONS.encode() if ours else b"")).hexdigest()[:32] + path.suffix
    target = folder / name
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        content = minified(path) if ours else source
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
