"""What the benchmark of the engine makes of its measurements: medians, intervals, quieter halves, and the record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.calibration import Calibration
from benchmarks.figures import BOUNDS, Figure, median_interval, of_values
from benchmarks.record import save, table
from benchmarks.rounds import Round, alternate, quieter_half, ratios


def test_sides_take_turns_in_both_orders_after_one_run_each() -> None:
    told: list[str] = []

    def side(name: str) -> float:
        told.append(name)
        return float(len(told))

    rounds = alternate({"a": lambda: side("a"), "b": lambda: side("b")}, 3, Calibration())
    assert told == ["a", "b", *"ab", *"ba", *"ab"]
    assert [one.values for one in rounds] == [{"a": 3, "b": 4}, {"b": 5, "a": 6}, {"a": 7, "b": 8}]
    assert ratios(rounds, "a", "b") == [3 / 4, 6 / 5, 7 / 8]


def test_the_quieter_half_is_that_of_the_calibration() -> None:
    rounds = [Round(calibration, {"a": number}) for number, calibration in enumerate((9.0, 1.0, 5.0, 2.0, 8.0))]
    assert [one.values["a"] for one in quieter_half(rounds)] == [1, 3, 2]


@pytest.mark.parametrize(("count", "rank"), [(6, 1), (20, 6), (30, 10)])
def test_the_interval_of_a_median_is_that_of_the_sign_test(count: int, rank: int) -> None:
    assert median_interval([float(number) for number in range(count, 0, -1)]) == (rank, count + 1 - rank)


def test_a_figure_is_reached_by_its_bound_and_its_condition() -> None:
    assert of_values("decode_vs_llamacpp", [0.9, 1.0, 1.1]).reached
    assert not of_values("decode_vs_llamacpp", [0.9, 0.99, 1.1]).reached
    assert of_values("decode_gap_steps", [4.0]).reached
    assert not of_values("decode_gap_steps", [4.0], condition=False).reached


def test_every_run_is_kept_and_the_last_one_counts(tmp_path: Path) -> None:
    path = tmp_path / "results" / "engine.json"
    for value in (1.0, 2.0, 3.0):
        save(path, [Figure("decode_vs_llamacpp", value, (value, value), "")], {"checkpoint": "tiny"})
    record = json.loads(path.read_text())
    entry = {"value": 3.0, "bound": 1.0, "reached": True, "spread": [3.0, 3.0], "note": ""}
    assert record["figures"] == {"decode_vs_llamacpp": entry}
    assert [run["figures"]["decode_vs_llamacpp"]["value"] for run in record["earlier"]] == [1.0, 2.0]
    assert record["machine"]
    assert record["date"]


def test_the_table_has_the_order_of_the_bounds() -> None:
    figures = [Figure(key, 1.0, (1.0, 1.0), "") for key in reversed(BOUNDS)]
    assert [line.split()[0] for line in table(figures).splitlines()[1:]] == list(BOUNDS)
