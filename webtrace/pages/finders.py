"""Serve plotly's own script at /static/plotly/plotly.min.js: from the Python package, so there is no CDN."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, overload

from django.contrib.staticfiles.finders import BaseFinder
from django.core.files.storage import FileSystemStorage

PLOTLY = "plotly/plotly.min.js"


def _package_data() -> Path:
    """The folder in which the installed package keeps its script; importing the package would cost half a second."""
    spec = find_spec("plotly")
    if spec is None or spec.origin is None:
        raise RuntimeError("The Python package plotly is not installed: pip install -r requirements.txt")
    return Path(spec.origin).parent / "package_data"


class PlotlyFinder(BaseFinder):
    """Finds exactly one file."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.storage = FileSystemStorage(location=str(_package_data()))
        self.storage.prefix = "plotly"  # type: ignore[attr-defined]  # how Django's finders mark a storage's folder

    @overload
    def find(self, path: str, find_all: Literal[False] = False) -> str | None: ...
    @overload
    def find(self, path: str, find_all: Literal[True]) -> builtins.list[str]: ...
    def find(self, path: str, find_all: bool = False, **kwargs: Any) -> str | builtins.list[str] | None:
        found = self.storage.path("plotly.min.js") if path == PLOTLY else None
        if find_all:
            return [found] if found else []
        return found

    def list(self, ignore_patterns: Any) -> Iterator[tuple[str, FileSystemStorage]]:
        yield "plotly.min.js", self.storage
