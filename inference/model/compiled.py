"""The products written in C: compiled on the machine that runs them, where it can, and kept.

Nothing depends on them: where there is no C compiler, or the processor lacks what they are written for, kernels of
torch do the work.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from inference.settings import EngineSettings

SOURCE = Path(__file__).with_name("packed_products.c")
COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-O3", "-march=native", "-ffp-contract=off", "-shared", "-fPIC")
TIMEOUT_S = 60


class NotCompiled(Exception):
    """The products cannot be had on this machine; the message says why."""


class Products:
    """The functions of the library. Both take rows, their number and width, packed weights, output, its width."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.four_bit = self._typed(library.four_bit_product)
        self.eight_bit = self._typed(library.eight_bit_product)

    @staticmethod
    def _typed(function: ctypes._NamedFuncPointer) -> ctypes._NamedFuncPointer:
        pointer, number = ctypes.c_void_p, ctypes.c_long
        function.argtypes = [pointer, number, number, pointer, pointer, number]
        function.restype = ctypes.c_int
        return function


@cache
def products() -> Products:
    """The library for this source and processor out of the data folder, compiled if it is not there.

    Raises NotCompiled.
    """
    path = EngineSettings.from_environment().cache / f"packed_products-{machine_key()}.so"
    if not path.exists():
        _compile(path)
    try:
        return Products(ctypes.CDLL(str(path)))
    except (OSError, AttributeError) as error:
        raise NotCompiled(f"{path.name} cannot be loaded: {error}") from error


def machine_key() -> str:
    """What source and processor are: another processor may lack what this one has."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    flags = next((line for line in lines if line.startswith("flags")), platform.processor())
    parts = (SOURCE.read_bytes(), repr(FLAGS).encode(), platform.machine().encode(), flags.encode())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _compile(path: Path) -> None:
    compiler = next((found for name in COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        raise NotCompiled(f"no C compiler ({', '.join(COMPILERS)}) is installed")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as workshop:
            made = Path(workshop) / path.name
            command = [compiler, *FLAGS, "-o", str(made), str(SOURCE)]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
            if done.returncode:
                first = (done.stderr.strip().splitlines() or ["no reason given"])[0]
                raise NotCompiled(f"{Path(compiler).name} refused {SOURCE.name}: {first}")
            os.replace(made, path)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotCompiled(f"{SOURCE.name} cannot be compiled: {error}") from error
