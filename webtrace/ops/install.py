"""Makes `.venv` what the requirement files say. Runs before anything is installed: standard library only.

    python webtrace/ops/install.py requirements.txt

The hash of the requirement files stands in a stamp file inside `.venv`, the choice of torch in another: where nothing
changed, nothing is asked and the call takes a fraction of a second.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
TORCH_PAGE = "https://pytorch.org/get-started/locally/"
# Traces of an NVIDIA driver: on Linux, and on Windows' Linux subsystem.
NVIDIA_TRACES = ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/usr/lib/wsl/lib/nvidia-smi")


class InstallError(Exception):
    """An installation that ended early. The message is one sentence that says what to do."""


def install(requirements: Path, *, torch_index: str) -> None:
    """Everything in `requirements` (and the files it names with -r), at the versions pinned there.

    `torch_index` is the address of the package index torch comes from; "" means pip's own as long as that does not
    bring CUDA to a machine without a GPU, "default" means pip's own whatever it brings. A build that is installed stays
    until another index is named. Raises InstallError.
    """
    torch = _torch_pin(ROOT / "requirements.txt")
    stamp, wanted = VENV / f".installed-{requirements.stem}", _digest(requirements)
    torch_stamp, torch_wanted = VENV / ".torch-index", f"{torch} {torch_index}"
    torch_is_right = not torch_index or _says(torch_stamp, torch_wanted)
    if torch_is_right and _says(stamp, wanted):
        return
    _make_venv()
    stamp.unlink(missing_ok=True)
    print(f"Installing {requirements.name} into .venv", flush=True)
    if not torch_is_right:
        source = [] if torch_index == "default" else ["--index-url", torch_index]
        _pip("install", "--force-reinstall", "--no-deps", *source, torch)  # its dependencies come with the rest
        torch_stamp.write_text(torch_wanted)
    elif not _has(torch) and not _has_nvidia_gpu():
        _refuse_cuda(torch)
    _pip("install", "-r", str(requirements))
    stamp.write_text(wanted)


def _says(stamp: Path, wanted: str) -> bool:
    return stamp.is_file() and stamp.read_text() == wanted


def _digest(requirements: Path) -> str:
    digest = hashlib.sha256(f"{sys.version_info[:2]}".encode())
    for file in _with_included(requirements):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _with_included(requirements: Path) -> list[Path]:
    included = [
        requirements.parent / line.removeprefix("-r").split("#")[0].strip()
        for line in requirements.read_text().splitlines()
        if line.startswith("-r ")
    ]
    return [requirements, *(file for name in included for file in _with_included(name))]


def _make_venv() -> None:
    if VENV_PYTHON.exists() and subprocess.run([VENV_PYTHON, "-m", "pip", "--version"], capture_output=True).returncode:
        shutil.rmtree(VENV)  # half-made, or its Python is gone
    if not VENV_PYTHON.exists():
        print("Making .venv", flush=True)
        try:
            venv.create(VENV, with_pip=True, clear=True, symlinks=True)
        except (OSError, subprocess.CalledProcessError, ImportError) as error:
            shutil.rmtree(VENV, ignore_errors=True)
            raise InstallError(
                f"Python could not make .venv ({error}): on Debian and Ubuntu `apt install python3-venv` first."
            ) from error
    version = subprocess.run([VENV_PYTHON, "-m", "pip", "--version"], capture_output=True, text=True, check=True).stdout
    if tuple(int(part) for part in version.split()[1].split(".")[:2]) < (23, 2):
        # Older ones download whole wheels to read what they need: see `_refuse_cuda`.
        _pip("install", "--upgrade", "pip")


def _pip(*arguments: str) -> None:
    command = [str(VENV_PYTHON), "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]
    done = subprocess.run(command, check=False)
    if done.returncode:
        raise InstallError(
            "pip could not install what is needed (its reason stands above): check network, proxy, disk space and "
            "PIP_INDEX, then run it again; what was installed so far is kept."
        )


# ---------------------------------------------------------------- torch


def _torch_pin(requirements: Path) -> str:
    for line in requirements.read_text().splitlines():
        if line.startswith("torch=="):
            return line.split("#")[0].strip()
    raise InstallError(f"{requirements} pins no torch: restore it from the repository.")


def _has(pin: str) -> bool:
    name, version = pin.split("==")
    code = f"import importlib.metadata as m; print(m.version({name!r}).split('+')[0])"
    done = subprocess.run([VENV_PYTHON, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() == version


def _has_nvidia_gpu() -> bool:
    return any(os.path.exists(trace) for trace in NVIDIA_TRACES)


def _refuse_cuda(torch: str) -> None:
    """Ends here if pip would bring torch's CUDA build, which weighs gigabytes, to a machine without a GPU for it.

    Only some indexes hold CPU builds for Linux on x86-64, and pip cannot be told to prefer one: so ask first which
    build it would take (a few kilobytes of metadata), and let the reader choose where to get the other.
    """
    if sys.platform != "linux" or platform.machine() not in {"x86_64", "AMD64"}:
        return  # there every index has CPU builds
    command = [
        str(VENV_PYTHON), "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet", "--dry-run",
        "--ignore-installed", "--no-deps", "--report", "-", torch,
    ]  # fmt: skip
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise InstallError(
            f"No package index could tell about {torch} (pip's reason stands above): check network, proxy and "
            "PIP_INDEX, then run it again."
        )
    if brings_cuda(json.loads(done.stdout)):
        raise InstallError(
            f"pip would install the CUDA build of {torch}, several gigabytes, and no NVIDIA GPU was found: take the "
            f"index address that {TORCH_PAGE} gives for pip, Linux and CPU, and run `make run TORCH_INDEX=<address>` "
            "(`TORCH_INDEX=default` takes what pip offers)."
        )


def brings_cuda(report: dict[str, Any]) -> bool:
    """Whether pip's installation report lists a distribution that requires CUDA libraries."""
    required = [line for item in report["install"] for line in item["metadata"].get("requires_dist") or ()]
    return any(line.startswith(("nvidia-", "cuda-", "triton")) for line in required)


if __name__ == "__main__":
    try:
        install(ROOT / sys.argv[1], torch_index=os.environ.get("TORCH_INDEX", ""))
    except InstallError as error:
        sys.exit(f"\n{error}")
