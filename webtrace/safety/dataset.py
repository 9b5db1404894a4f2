"""The examples the safety heads learn from, and the fifth of them that is held out.

`examples/*.jsonl` holds one example a line: `{"text", "label", "pair"}`. Texts of one pair were written together,
close in wording and different in label, and never part: both train or both are held out.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

EXAMPLES = Path(__file__).parent / "examples"
LABELS = ("ordinary_humour", "targeted_harassment", "incitement_or_threat", "other")
HARMFUL = ("targeted_harassment", "incitement_or_threat")

# In the order they were written. New files go to the end, so that no old pair changes sides.
FILES = (
    "threats",
    "near_misses_humour_threat",
    "near_misses_other_threat",
    "near_misses_harassment_threat",
    "humour",
    "near_misses_humour_other",
    "near_misses_humour_harassment",
    "other",
    "near_misses_other_harassment",
    "harassment",
    "near_misses_public_life",
    "near_misses_everyday",
    "answers",
    "near_misses_answers",
    "near_misses_statements",
)
LOOK_ALIKES = "look_alikes"
"""Harmless texts that look harmful. Nothing is ever trained on them."""
EVERYDAY = "everyday"
"""Sentences anybody may type. They only measure: nothing is trained on them and no threshold is set by them."""

SPLIT_SEED = 20240
NUM_FOLDS = 5
CLOSEST_ALLOWED = 0.9
"""Cosine between a held-out text and a training text above which the held-out one tests memory, not judgement."""


class Example(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    text: str
    label: str
    pair: str


class BadExamples(ValueError):
    """The examples cannot be used; the message lists what is wrong with which."""


@dataclass(frozen=True)
class Split:
    """Indexes into the list of examples."""

    training: list[int]
    held_out: list[int]


def load_examples(folder: Path = EXAMPLES, files: Sequence[str] = FILES) -> list[Example]:
    """All examples in the order of `files`. Raises BadExamples naming file and line."""
    examples: list[Example] = []
    problems: list[str] = []
    seen: dict[str, str] = {}
    for name in files:
        for number, line in enumerate((folder / f"{name}.jsonl").read_bytes().splitlines(), start=1):
            place = f"{name}.jsonl:{number}"
            try:
                example = msgspec.json.decode(line, type=Example)
            except msgspec.DecodeError as error:
                problems.append(f"{place}: {error}")
                continue
            if example.label not in LABELS:
                problems.append(f"{place}: label {example.label!r} is none of {', '.join(LABELS)}")
            if earlier := seen.get(example.text):
                problems.append(f"{place}: the text stands at {earlier} already")
            seen[example.text] = place
            examples.append(example)
    if problems:
        raise BadExamples("\n".join(problems))
    return examples


def folds(examples: Sequence[Example], indexes: Sequence[int], seed: int) -> list[list[int]]:
    """Five parts of these examples; the pairs of a file are dealt out in shuffled order, one after another."""
    members: dict[str, list[int]] = {}
    for index in indexes:
        members.setdefault(examples[index].pair, []).append(index)
    by_file: dict[str, list[str]] = {}
    for pair in members:
        by_file.setdefault(pair.rpartition("-")[0], []).append(pair)
    shuffled = random.Random(seed)
    parts: list[list[int]] = [[] for _ in range(NUM_FOLDS)]
    dealt = 0
    for pairs in by_file.values():
        pairs.sort()
        shuffled.shuffle(pairs)
        for pair in pairs:
            parts[dealt % NUM_FOLDS] += members[pair]
            dealt += 1
    return parts


def split(examples: Sequence[Example]) -> Split:
    """The same fifth is held out every time."""
    held_out, *rest = folds(examples, range(len(examples)), SPLIT_SEED)
    return Split(training=[index for part in rest for index in part], held_out=held_out)


def check_distance(examples: Sequence[Example], parts: Split, vectors: NDArray[np.float32]) -> None:
    """Refuses a held-out text that nearly stands in the training texts. Raises BadExamples listing each.

    `vectors` are the unit sentence vectors [examples, width].
    """
    cosines = vectors[parts.held_out] @ vectors[parts.training].T
    offenders = [
        f"{cosines[row, column]:.3f}  {examples[parts.held_out[row]].text!r}"
        f" is close to {examples[parts.training[column]].text!r}"
        for row, column in zip(*np.nonzero(cosines > CLOSEST_ALLOWED), strict=True)
    ]
    if offenders:
        raise BadExamples(
            f"Held-out texts with a training neighbour above cosine {CLOSEST_ALLOWED}:\n" + "\n".join(offenders)
        )


def digest(examples: Sequence[Example]) -> str:
    """Identifies texts, labels and pairs, whatever their order."""
    lines = sorted(msgspec.json.encode(example) for example in examples)
    return hashlib.sha256(b"\n".join(lines)).hexdigest()
