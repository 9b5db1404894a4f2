"""What was measured, as a table for a person and as a record that is only ever appended to."""

from __future__ import annotations

import importlib.metadata
import json
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.figures import BOUNDS, PAGE_BOUNDS, Figure
from webtrace.ops.probe import processor

LIBRARIES = ("torch", "transformers", "llama-cpp-python", "numpy", "plotly", "playwright")


def table(figures: list[Figure]) -> str:
    """One line a figure, in the order in which the bounds are listed."""
    order = [*BOUNDS, *PAGE_BOUNDS]
    rows = [("figure", "value", "bound", "", "spread", "")]
    for one in sorted(figures, key=lambda figure: order.index(figure.key)):
        low, high = one.spread
        verdict = "reached" if one.reached else "missed"
        rows.append((one.key, f"{one.value:.4g}", str(one.bound), verdict, f"{low:.4g} to {high:.4g}", one.note))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row[:5], widths, strict=True)), row[5]]).rstrip()
        for row in rows
    )


def save(path: Path, figures: list[Figure], about: dict[str, Any]) -> None:
    """Makes this run the record's last and moves the one before to its `earlier` ones."""
    run = {
        "machine": processor(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "libraries": {name: _version(name) for name in LIBRARIES},
        **about,
        "figures": {one.key: _entry(one) for one in figures},
    }
    earlier: list[Any] = []
    if path.exists():
        last = json.loads(path.read_text())
        earlier = [*last.pop("earlier", []), last]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**run, "earlier": earlier}, indent=1) + "\n")


def _entry(one: Figure) -> dict[str, Any]:
    low, high = one.spread
    return {
        "value": round(one.value, 4),
        "bound": one.bound.limit,
        "reached": one.reached,
        "spread": [round(low, 4), round(high, 4)],
        "note": one.note,
    }


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
