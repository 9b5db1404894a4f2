"""What this machine computes with: device, kernels and threads the engine will choose, found by trying them.

Trying takes a few seconds and imports torch, so it happens in a process of its own and is remembered in the data
folder until the checkpoint, the settings, torch, the processor or the way of choosing change.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]


class ProbeError(Exception):
    """The engine could not use this checkpoint, device or kernel. The message is one sentence."""


def probe(
    model: Path, *, device: str, kernel: str, remembered: Path, run: Callable[..., str] | None = None
) -> dict[str, str]:
    """Facts about the engine to come, by name, as they are shown at set-up. Raises ProbeError."""
    key = _key(model, device, kernel)
    try:
        known = json.loads(remembered.read_text())
        if known["key"] == key:
            return dict(known["facts"])
    except (OSError, ValueError, KeyError):
        pass  # never asked, or written by another version
    facts = {name: str(value) for name, value in json.loads((run or _run)(model, device, kernel)).items()}
    remembered.write_text(json.dumps({"key": key, "facts": facts}, indent=1))
    return facts


def processor() -> str:
    """Name, number of usable cores and memory, as far as the system tells."""
    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        models = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        name = models[0] if models else name
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{name}, {cores} cores, {memory:.0f} GiB of memory"


def _run(model: Path, device: str, kernel: str) -> str:
    command = [sys.executable, "-m", "webtrace.ops.probe", str(model.resolve()), device, kernel]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise ProbeError(
            f"The engine cannot use {model} ({reason}): check WEBTRACE_MODEL, WEBTRACE_DEVICE and WEBTRACE_KERNEL."
        )
    return done.stdout.splitlines()[-1]


def _key(model: Path, device: str, kernel: str) -> str:
    at = model.stat()
    chooser = (CHECKOUT / "inference/model/plan.py").read_text()
    versions = [importlib.metadata.version("torch"), sys.version, chooser]
    parts = [str(model.resolve()), at.st_size, at.st_mtime_ns, device, kernel, processor(), *versions]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _try_out(model: Path, device: str, kernel: str) -> dict[str, object]:
    """What `probe` asks another process for, so that torch stays there."""
    from inference.checkpoint import load_checkpoint
    from inference.model.plan import make_plan

    checkpoint = load_checkpoint(model)
    plan = make_plan(checkpoint, device, kernel)
    return {
        "model": f"{checkpoint.name}, {checkpoint.config.architecture}, {checkpoint.config.n_layers} layers",
        "device": plan.device,
        "kernel": f"{plan.linear}, output head {plan.head}",
        "threads": plan.threads,
        "because": plan.reason,
    }


if __name__ == "__main__":
    print(json.dumps(_try_out(Path(sys.argv[1]), sys.argv[2], sys.argv[3])))
