"""The engine beside others, and what it promises in absolute terms. `make bench` runs all of it:

    python -m benchmarks.engine [--rounds 12] [--only decode_vs_llamacpp …] [--no-record]

All sides of a comparison take turns in one process, on the same checkpoint file, with one thread each. A fixed piece
of work timed between the runs tells how quiet the machine was; the quieter half of the rounds is judged. The table is
printed and the run becomes the last of benchmarks/results/engine.json.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before any library starts its threads

import argparse
import sys
from pathlib import Path
from typing import Any

from benchmarks import compared, served
from benchmarks.calibration import Calibration
from benchmarks.figures import BOUNDS, Figure
from benchmarks.record import save, table
from inference.settings import EngineSettings

RESULTS = Path(__file__).parent / "results" / "engine.json"


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(prog="python -m benchmarks.engine", description=__doc__)
    options.add_argument("--rounds", type=int, default=12, help="alternations of every comparison, at least 10")
    options.add_argument("--only", nargs="+", choices=BOUNDS, default=list(BOUNDS), metavar="KEY")
    options.add_argument("--no-record", action="store_true", help="print the table and write nothing")
    return options


def main() -> int:
    arguments = parser().parse_args()
    if arguments.rounds < 10:
        print("--rounds must be at least 10.", file=sys.stderr)
        return 2
    settings = EngineSettings.from_environment()
    wanted = set(arguments.only)
    calibration = Calibration()
    figures: list[Figure] = []
    about: dict[str, Any] = {"checkpoint": settings.model.name}
    for part in (compared, served):
        more, facts = part.measure(settings, wanted, arguments.rounds, calibration)
        figures += more
        about |= facts
    about["calibration_ms"] = calibration.summary()
    print(table(figures))
    for name, value in about.items():
        print(f"{name}: {value}")
    if not arguments.no_record:
        save(RESULTS, figures, about)
    return 0


if __name__ == "__main__":
    sys.exit(main())
