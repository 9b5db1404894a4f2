"""What a test needs beside Python: browser and services. Missing ones skip, or fail where they are required."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

COMPILERS = ("cc", "gcc", "clang")


def required(kind: str) -> bool:
    """`WEBTRACE_REQUIRE=browser,services` names the kinds whose absence is a failure, not a skip."""
    return kind in os.environ.get("WEBTRACE_REQUIRE", "").split(",")


def missing(kind: str, why: str) -> NoReturn:
    """Ends the test that needs `kind` ("browser" or "services")."""
    if required(kind):
        pytest.fail(f"{kind} required by WEBTRACE_REQUIRE, but {why}")
    pytest.skip(f"needs {kind}, but {why}")


def can_run_native() -> bool:
    """Whether this machine should be able to compile and run the products in C: their tests are for no other."""
    processor = Path("/proc/cpuinfo")
    has_instructions = processor.exists() and "avx2" in processor.read_text()
    return has_instructions and any(shutil.which(name) for name in COMPILERS)
