"""Installing the requirements: nothing twice, and no CUDA where no GPU is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from webtrace.ops import install as module
from webtrace.ops.install import InstallError, brings_cuda, install

CPU_BUILD = {"install": [{"metadata": {"name": "torch", "requires_dist": ["filelock", "sympy>=1.13.3", "jinja2"]}}]}
CUDA_BUILD = {"install": [{"metadata": {"name": "torch", "requires_dist": ["filelock", "nvidia-cudnn-cu13==9.20"]}}]}


@pytest.fixture
def pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A pip that notes what it is asked, in a virtual environment that exists already and has no torch."""
    asked = SimpleNamespace(commands=[], report=CPU_BUILD, fails=False)

    def run(command: list[Any], **options: Any) -> subprocess.CompletedProcess[str]:
        words = [str(word) for word in command]
        if "--version" in words:
            return subprocess.CompletedProcess(words, 0, "pip 26.0 from here (python 3.11)")
        if "-c" in words:
            return subprocess.CompletedProcess(words, 1, "")
        asked.commands.append(" ".join(words))
        answer = json.dumps(asked.report) if "--dry-run" in words else ""
        return subprocess.CompletedProcess(words, int(asked.fails), answer)

    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").touch()
    (tmp_path / "requirements.txt").write_text("torch==2.13.0  # tensors\n")
    monkeypatch.setattr(module, "VENV", tmp_path)
    monkeypatch.setattr(module, "VENV_PYTHON", tmp_path / "bin/python")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "NVIDIA_TRACES", ())
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    return asked


def test_a_changed_requirement_is_installed_and_an_unchanged_one_is_not(tmp_path: Path, pip: SimpleNamespace) -> None:
    development = tmp_path / "requirements-dev.txt"
    development.write_text("-r requirements.txt\npytest\n")
    install(development, torch_index="")
    assert f"install -r {development}" in pip.commands[-1]
    pip.commands.clear()
    install(development, torch_index="")
    assert pip.commands == []
    (tmp_path / "requirements.txt").write_text("torch==2.13.1\n")
    install(development, torch_index="")
    assert f"install -r {development}" in pip.commands[-1]


def test_a_cuda_build_is_refused_before_it_is_downloaded(tmp_path: Path, pip: SimpleNamespace) -> None:
    pip.report = CUDA_BUILD
    with pytest.raises(InstallError, match=r"several gigabytes.*make run TORCH_INDEX=<address>"):
        install(tmp_path / "requirements.txt", torch_index="")
    assert all("--dry-run" in command for command in pip.commands)
    assert not list(tmp_path.glob(".installed-*"))


def test_a_gpu_may_have_its_cuda_build(tmp_path: Path, pip: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    pip.report = CUDA_BUILD
    monkeypatch.setattr(module, "NVIDIA_TRACES", (os.devnull,))
    install(tmp_path / "requirements.txt", torch_index="")
    assert "install -r" in pip.commands[-1]


def test_torch_comes_from_the_index_that_was_named(tmp_path: Path, pip: SimpleNamespace) -> None:
    install(tmp_path / "requirements.txt", torch_index="file:///wheels")
    assert "--index-url file:///wheels torch==2.13.0" in pip.commands[0]
    assert "--index-url" not in pip.commands[1]
    pip.commands.clear()
    for kept in ("file:///wheels", ""):
        install(tmp_path / "requirements.txt", torch_index=kept)
        assert pip.commands == []
    install(tmp_path / "requirements.txt", torch_index="file:///others")
    assert "--force-reinstall --no-deps --index-url file:///others torch==2.13.0" in pip.commands[0]


def test_a_failed_installation_is_tried_again(tmp_path: Path, pip: SimpleNamespace) -> None:
    pip.fails = True
    with pytest.raises(InstallError, match="check network, proxy"):
        install(tmp_path / "requirements.txt", torch_index="default")
    pip.fails = False
    install(tmp_path / "requirements.txt", torch_index="default")
    assert [command.split(" install ")[1].split()[0] for command in pip.commands] == ["--force-reinstall"] * 2 + ["-r"]


def test_which_build_brings_cuda() -> None:
    assert brings_cuda(CUDA_BUILD)
    assert not brings_cuda(CPU_BUILD)
    assert not brings_cuda({"install": [{"metadata": {"name": "torch"}}]})
