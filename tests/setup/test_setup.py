"""`manage.py setup`: what it makes, and that it may be repeated."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from django.contrib.auth import get_user_model

from webtrace.ops.management.commands.setup import make_first_admin, protect_secret_key
from webtrace.ops.probe import ProbeError, probe

ROOT = Path(__file__).resolve().parents[2]
MODELS = Path(os.environ.get("WEBTRACE_DATA", ROOT / "data")) / "models"


def manage(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "manage.py", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=os.environ | variables, capture_output=True, text=True, timeout=110, check=False
    )


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder that holds the checkpoints and nothing else."""
    (tmp_path / "models").symlink_to(MODELS)
    return tmp_path


def test_set_up_once_and_again(data: Path) -> None:
    first = manage("setup", WEBTRACE_DATA=str(data))
    assert first.returncode == 0, first.stderr
    assert re.search(r"user name admin, password \S{16} ", first.stdout)
    assert stat.S_IMODE((data / "secret_key").stat().st_mode) == 0o600
    key = (data / "secret_key").read_text()
    assert len(key) >= 50
    for fact in ("device: cpu", "kernel: ", "threads: "):
        assert fact in first.stdout

    again = manage("setup", WEBTRACE_DATA=str(data))
    assert again.returncode == 0, again.stderr
    assert "password" not in again.stdout
    assert (data / "secret_key").read_text() == key


def test_a_model_that_is_not_there_ends_in_one_sentence(data: Path) -> None:
    done = manage("setup", WEBTRACE_DATA=str(data), WEBTRACE_MODEL="/nowhere/model.gguf")
    assert done.returncode != 0
    assert done.stderr.strip() == (
        "CommandError: WEBTRACE_MODEL names /nowhere/model.gguf, which does not exist: correct or unset it."
    )
    assert not (data / "webtrace.sqlite3").exists()


def test_only_the_checkpoints(data: Path) -> None:
    done = manage("setup", "--checkpoints-only", "--verify", WEBTRACE_DATA=str(data))
    assert done.returncode == 0, done.stderr
    assert not (data / "webtrace.sqlite3").exists()


@pytest.mark.django_db
def test_the_first_admin_is_made_once_and_can_sign_in() -> None:
    password = make_first_admin()
    assert password
    user = get_user_model().objects.get(username="admin")
    assert user.is_superuser
    assert user.check_password(password)
    assert make_first_admin() is None
    user.refresh_from_db()
    assert user.check_password(password)


def test_a_loose_secret_key_is_closed(tmp_path: Path) -> None:
    key = tmp_path / "secret_key"
    key.write_text("k")
    key.chmod(0o644)
    protect_secret_key(key)
    assert stat.S_IMODE(key.stat().st_mode) == 0o600


def test_the_machine_is_probed_again_only_when_something_changed(tmp_path: Path) -> None:
    model, remembered = tmp_path / "model", tmp_path / "probe.json"
    model.write_text("weights")
    runs: list[str] = []

    def run(path: Path, device: str, kernel: str) -> str:
        runs.append(kernel)
        return json.dumps({"device": "cpu", "kernel": kernel, "threads": 1})

    for kernel in ("auto", "auto", "int8"):
        facts = probe(model, device="auto", kernel=kernel, remembered=remembered, run=run)
        assert facts == {"device": "cpu", "kernel": kernel, "threads": "1"}
    assert runs == ["auto", "int8"]
    remembered.write_text("not JSON")
    probe(model, device="auto", kernel="int8", remembered=remembered, run=run)
    assert runs == ["auto", "int8", "int8"]


def test_a_file_that_is_no_checkpoint_is_named(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_text("not a checkpoint")
    with pytest.raises(ProbeError, match=r"model\.gguf.*WEBTRACE_MODEL"):
        probe(tmp_path / "model.gguf", device="cpu", kernel="float32", remembered=tmp_path / "probe.json")
    assert not (tmp_path / "probe.json").exists()
