"""Installs what the tests need from the system's packages, where something is missing and this user may install.

Run by `make test` before anything else; standard library only. Says in plain words what will be skipped.
"""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Need:
    what: str
    kind: str  # as in WEBTRACE_REQUIRE
    packages: tuple[str, ...]  # Debian's and Ubuntu's names
    present: Callable[[], bool]


def _program(*names: str) -> Callable[[], bool]:
    return lambda: any(shutil.which(name) or glob.glob(f"/usr/lib/postgresql/*/bin/{name}") for name in names)


def _font(sample: str) -> Callable[[], bool]:
    """Whether some font shows the characters of that language or script (fontconfig's names)."""

    def present() -> bool:
        if not shutil.which("fc-list"):
            return False
        return bool(subprocess.run(["fc-list", sample], capture_output=True, check=False).stdout)

    return present


NEEDS = (
    Need("Chromium", "browser", ("chromium",), _program("chromium", "chromium-browser", "google-chrome")),
    Need("fonts with emoji", "browser", ("fonts-noto-color-emoji", "fontconfig"), _font(":lang=und-zsye")),
    Need("fonts with Chinese characters", "browser", ("fonts-noto-cjk", "fontconfig"), _font(":lang=zh-cn")),
    Need("esbuild", "browser", ("esbuild",), _program("esbuild")),
    Need("Redis", "services", ("redis-server",), _program("redis-server")),
    Need("PostgreSQL", "services", ("postgresql",), _program("initdb")),
)


def main() -> int:
    missing = [need for need in NEEDS if not need.present()]
    if missing:
        _install(sorted({package for need in missing for package in need.packages}))
    required = os.environ.get("WEBTRACE_REQUIRE", "").split(",")
    still_missing = [need for need in missing if not need.present()]
    for need in still_missing:
        fate = "is required (WEBTRACE_REQUIRE)" if need.kind in required else "tests that need it will be skipped"
        print(f"{need.what} is missing: {fate}; Debian's packages: {' '.join(need.packages)}", flush=True)
    return int(any(need.kind in required for need in still_missing))


def _install(packages: list[str]) -> None:
    if not shutil.which("apt-get"):
        return
    if os.geteuid() == 0:
        prefix = []
    elif (
        shutil.which("sudo") and not subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode
    ):
        prefix = ["sudo", "-n"]
    else:
        return
    print(f"Installing from the system's packages: {' '.join(packages)}", flush=True)
    apt = [*prefix, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-y", "--no-install-recommends"]
    subprocess.run([*apt, "update"], stdout=subprocess.DEVNULL, check=False)
    # All or none is apt's way: a name this release does not know must not keep the others away.
    if subprocess.run([*apt, "install", *packages], stdout=subprocess.DEVNULL, check=False).returncode:
        for package in packages:
            subprocess.run([*apt, "install", package], stdout=subprocess.DEVNULL, check=False)


if __name__ == "__main__":
    sys.exit(main())
