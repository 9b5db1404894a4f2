"""Imports point one way: a room knows what it stands on, never what stands on it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WORDS = {
    *("environment", "settings", "client_events", "events", "stages", "breakpoints", "digits", "lessons"),
    *("database", "storage_problem", "esbuild", "published", "static_files"),
}
APPS = {"accounts", "conversations", "dispatch", "gateway", "safety", "reporting", "prompt", "read_only_admin"}
JOURNEY = {"turns", "release", "generation", "outcomes", "storage", "journey"}
FLOORS: tuple[set[str], ...] = (
    {"inference"},
    WORDS,
    APPS,
    {"running"},
    JOURNEY,
    {"api", "worker"},
    {"pages"},
    {"ops"},
    {"asgi", "urls"},
)
"""From the ground up; a room may import from floors below its own."""
OPEN = (WORDS, APPS, JOURNEY)
"""Floors whose rooms may know each other."""


def room(module: str) -> str | None:
    """`webtrace.api.socket` is in room "api", all of `inference` is one room; None for what is not ours."""
    first, *rest = module.split(".")
    if first == "inference":
        return first
    return rest[0] if first == "webtrace" and rest else None


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "webtrace":
            yield from (f"webtrace.{name.name}" for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def modules() -> list[Path]:
    return [path for top in ("inference", "webtrace") for path in sorted((ROOT / top).rglob("*.py"))]


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_imports_only_from_floors_below(path: Path) -> None:
    own = room(".".join(path.relative_to(ROOT).with_suffix("").parts))
    if own == "__init__":
        return
    floor = next((floor for floor in FLOORS if own in floor), None)
    assert floor is not None, f"{own} stands on no floor yet"
    allowed = set[str]().union(*FLOORS[: FLOORS.index(floor)], floor if floor in OPEN else {own})
    assert {found for module in imported(path) if (found := room(module))} <= allowed


def test_the_model_knows_nothing_of_the_service() -> None:
    for path in (ROOT / "inference").rglob("*.py"):
        tops = {module.split(".")[0] for module in imported(path)}
        assert not tops & {"django", "channels", "daphne", "webtrace"}, path
