"""Settings out of the environment: right values arrive, wrong ones stop the start and name their variable."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from inference.settings import EngineSettings
from webtrace import environment as env

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def variable(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    return lambda value: monkeypatch.setenv("WEBTRACE_X", value)


def test_a_missing_or_blank_variable_means_the_default(variable: Callable[[str], None]) -> None:
    assert env.text("WEBTRACE_X", "here") == "here"
    variable("  ")
    assert env.text("WEBTRACE_X", "here") == "here"
    assert env.integer("WEBTRACE_X", 5) == 5
    assert env.flag("WEBTRACE_X", True) is True
    assert env.words("WEBTRACE_X", "a,b") == ["a", "b"]


def test_values_are_read(variable: Callable[[str], None]) -> None:
    variable("7")
    assert env.integer("WEBTRACE_X", 5) == 7
    variable("Off")
    assert env.flag("WEBTRACE_X", True) is False
    variable("one, two ,")
    assert env.words("WEBTRACE_X") == ["one", "two"]


@pytest.mark.parametrize(
    ("value", "read", "complaint"),
    [
        ("seven", lambda: env.integer("WEBTRACE_X", 5), "whole number"),
        ("-1", lambda: env.integer("WEBTRACE_X", 5), "at least 0"),
        ("maybe", lambda: env.flag("WEBTRACE_X", True), "1 or 0"),
        ("tpu", lambda: env.text("WEBTRACE_X", "auto", choices=("auto", "cpu")), "auto, cpu"),
    ],
)
def test_a_wrong_value_names_its_variable(
    variable: Callable[[str], None], value: str, read: Callable[[], object], complaint: str
) -> None:
    variable(value)
    with pytest.raises(ImproperlyConfigured, match=f"WEBTRACE_X is .*{complaint}"):
        read()


def test_a_database_address() -> None:
    settings = env.database_url("postgres://me:p%40ss@db.example:5433/web%20trace")
    assert (settings["USER"], settings["PASSWORD"], settings["HOST"]) == ("me", "p@ss", "db.example")
    assert (settings["PORT"], settings["NAME"]) == ("5433", "web trace")
    with pytest.raises(ImproperlyConfigured, match="DATABASE_URL has scheme 'mysql'"):
        env.database_url("mysql://db/x")


def test_every_variable_is_documented() -> None:
    variable = re.compile(r"\benv\.\w+\(\s*\"([A-Z_]+)\"")
    read = set(variable.findall((ROOT / "webtrace/settings.py").read_text()))
    assert "WEBTRACE_KERNEL" in read
    read |= set(EngineSettings.from_environment({}).to_environment())
    documented = set(re.findall(r"`([A-Z_]+)`", (ROOT / "docs/operating.md").read_text()))
    assert read - documented == set()


@pytest.mark.parametrize("module", ["webtrace.asgi", "webtrace.journey", "inference.text", "inference.messages"])
def test_neither_web_nor_worker_import_torch(module: str, tmp_path: Path) -> None:
    code = f"""
import sys, django
django.setup()
import {module}
sys.exit("torch was imported" if "torch" in sys.modules else 0)
"""
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "webtrace.settings", "WEBTRACE_DATA": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_processes_that_start_at_once_share_one_secret(tmp_path: Path) -> None:
    path = tmp_path / "new" / "secret_key"
    start = threading.Barrier(8)

    def read(_: int) -> str:
        start.wait()
        return env.secret(path)

    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(read, range(8)))
    assert len(found) == 1
    assert len(found.pop()) >= 50
    assert [file.name for file in path.parent.iterdir()] == ["secret_key"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
