"""Serves Plotly's script from its own Python package: no copy in the repository, no other host."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import plotly
from django.contrib.staticfiles.finders import BaseFinder
from django.core.files.storage import FileSystemStorage


class PlotlyFinder(BaseFinder):
    """Finds `plotly/plotly.min.js` in the installed package."""

    storage = FileSystemStorage(location=Path(plotly.__file__).parent / "package_data", base_url=None)
    file = "plotly.min.js"

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        self.storage.prefix = "plotly"  # type: ignore[attr-defined]  # collectstatic's own convention

    def find(self, path: str, find_all: bool = False, **_kwargs: Any) -> Any:
        found = self.storage.path(self.file) if path == f"plotly/{self.file}" else None
        return ([found] if found else []) if find_all else (found or [])

    def list(self, ignore_patterns: Any) -> Iterator[tuple[str, FileSystemStorage]]:
        yield self.file, self.storage
