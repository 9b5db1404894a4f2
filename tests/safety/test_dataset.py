"""The examples keep their promises, and the split keeps pairs together and stays where it was."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest

from webtrace.safety.dataset import (
    EVERYDAY,
    HARMFUL,
    LABELS,
    LOOK_ALIKES,
    BadExamples,
    Example,
    Split,
    check_distance,
    load_examples,
    split,
)


def test_labels_are_balanced_and_half_of_the_texts_are_near_misses() -> None:
    examples = load_examples()
    per_label = Counter(example.label for example in examples)
    assert set(per_label) == set(LABELS)
    assert min(per_label.values()) >= 160
    assert max(per_label.values()) <= 1.3 * min(per_label.values())
    pairs = defaultdict(list)
    for example in examples:
        pairs[example.pair].append(example.label)
    near_misses = [labels for labels in pairs.values() if len(labels) > 1]
    assert sum(map(len, near_misses)) >= len(examples) / 2
    assert all(len(labels) == len(set(labels)) == 2 for labels in near_misses)


def test_a_fifth_is_held_out_and_no_pair_is_divided() -> None:
    examples = load_examples()
    parts = split(examples)
    assert sorted([*parts.training, *parts.held_out]) == list(range(len(examples)))
    assert len(parts.held_out) == pytest.approx(len(examples) / 5, rel=0.05)
    training, held_out = ({examples[index].pair for index in side} for side in (parts.training, parts.held_out))
    assert not training & held_out
    assert split(examples) == parts
    assert {examples[index].label for index in parts.held_out} == set(LABELS)


def test_new_files_at_the_end_move_no_old_pair() -> None:
    examples = load_examples()
    before = {examples[index].text for index in split(examples).held_out}
    more = [Example(f"A new text with the number {number}.", "other", f"new-{number:02d}") for number in range(50)]
    longer = [*examples, *more]
    after = {longer[index].text for index in split(longer).held_out}
    assert {text for text in after if not text.startswith("A new text")} == before


def test_look_alikes_are_harmless_enough_of_them_and_not_among_the_examples() -> None:
    look_alikes = load_examples(files=[LOOK_ALIKES])
    assert len(look_alikes) >= 40
    assert not {example.label for example in look_alikes} & set(HARMFUL)
    assert not {example.text for example in look_alikes} & {example.text for example in load_examples()}


def test_everyday_sentences_are_harmless_and_only_measure() -> None:
    everyday = load_examples(files=[EVERYDAY])
    assert len(everyday) >= 200
    assert not {example.label for example in everyday} & set(HARMFUL)
    texts = {example.text for example in everyday}
    assert not texts & {example.text for example in load_examples()}
    assert not texts & {example.text for example in load_examples(files=[LOOK_ALIKES])}


def test_a_held_out_text_close_to_a_training_text_is_refused_with_both_named() -> None:
    examples = [Example(text, "other", text) for text in ("one", "two", "almost one")]
    vectors = np.array([[1, 0], [0, 1], [0.95, np.sqrt(1 - 0.95**2)]], dtype=np.float32)
    check_distance(examples, Split(training=[0], held_out=[1]), vectors)
    with pytest.raises(BadExamples, match=r"0\.950  'almost one' is close to 'one'"):
        check_distance(examples, Split(training=[0, 1], held_out=[2]), vectors)


def test_bad_lines_are_listed_with_file_and_line(tmp_path: Path) -> None:
    good = {"text": "fine", "label": "other", "pair": "a-01"}
    lines = [good, good, {**good, "text": "x", "label": "odd"}, {**good, "text": "y", "extra": 1}]
    (tmp_path / "bad.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n{")
    with pytest.raises(BadExamples) as caught:
        load_examples(tmp_path, ["bad"])
    problems = str(caught.value).splitlines()
    assert problems[0] == "bad.jsonl:2: the text stands at bad.jsonl:1 already"
    assert problems[1].startswith("bad.jsonl:3: label 'odd' is none of ordinary_humour")
    assert problems[2].startswith("bad.jsonl:4: Object contains unknown field `extra`")
    assert problems[3].startswith("bad.jsonl:5: Input data was truncated")
