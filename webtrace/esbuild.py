"""Shortens scripts and styles with esbuild where that is installed: they mean the same, in about two thirds of the
bytes. Debian's and Ubuntu's package, npm's or a single binary will do; without it nothing is lost but those bytes."""

from __future__ import annotations

import logging
import shutil
import subprocess
from functools import cache
from pathlib import Path

LOADERS = {".js": "js", ".css": "css"}
SECONDS = 20
"""What a file may take: far more than any needs, so that a start never hangs."""

logger = logging.getLogger(__name__)


@cache
def version() -> str | None:
    """Of the esbuild in PATH; None where there is none that runs."""
    try:
        return _run("--version", source=b"").decode().strip()
    except (OSError, subprocess.SubprocessError):
        return None


def can_shorten(path: Path) -> bool:
    return path.suffix in LOADERS and not path.name.endswith(f".min{path.suffix}") and version() is not None


def shortened(path: Path, source: bytes) -> bytes:
    """`source` in fewer bytes, or as it is where esbuild cannot read it, with a warning."""
    try:
        # Every file alone: names that other modules import stay as they are.
        return _run("--minify", "--charset=utf8", f"--loader={LOADERS[path.suffix]}", source=source)
    except (OSError, subprocess.SubprocessError) as error:
        reason = getattr(error, "stderr", b"") or str(error).encode()
        logger.warning("%s is sent as it is written: esbuild %s: %s", path.name, version(), reason.decode()[:500])
        return source


def _run(*options: str, source: bytes) -> bytes:
    program = shutil.which("esbuild")
    if program is None:
        raise FileNotFoundError("esbuild")
    return subprocess.run([program, *options], input=source, capture_output=True, check=True, timeout=SECONDS).stdout
