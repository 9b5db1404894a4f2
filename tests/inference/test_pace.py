"""How long is read beside running answers."""

from __future__ import annotations

import pytest

from inference.pace import COLD, RECENT, SLOWDOWN, Pace

STEP = 0.01  # seconds of a step of four answers, alone


@pytest.fixture
def pace() -> Pace:
    """One that has seen four answers alone, and one of their steps held up."""
    pace = Pace()
    for seconds in [STEP] * RECENT + [7 * STEP]:
        assert pace.allowance(4, seconds, is_reading=False) == 0
    return pace


@pytest.mark.parametrize("seconds", [STEP, 1.15 * STEP, 1.5 * STEP])
def test_step_and_reading_together_take_a_known_multiple_of_a_step_alone(pace: Pace, seconds: float) -> None:
    assert seconds + pace.allowance(4, 1.1 * STEP, is_reading=True) > 0
    assert seconds + pace.allowance(4, seconds, is_reading=True) == pytest.approx(SLOWDOWN * STEP)


def test_a_step_that_was_held_up_leaves_no_time_for_reading_and_the_next_one_does(pace: Pace) -> None:
    for _ in range(RECENT):
        pace.allowance(4, STEP, is_reading=True)
    assert pace.allowance(4, 9 * STEP, is_reading=True) < 0
    assert pace.allowance(4, STEP, is_reading=True) == pytest.approx((SLOWDOWN - 1) * STEP)


def test_a_number_of_answers_never_seen_alone_is_judged_by_its_steps_beside_reading(pace: Pace) -> None:
    for _ in range(RECENT):
        allowance = pace.allowance(8, 2 * STEP, is_reading=True)
    assert allowance == pytest.approx((SLOWDOWN / COLD - 1) * 2 * STEP)


def test_a_machine_that_became_slower_goes_on_reading(pace: Pace) -> None:
    for _ in range(RECENT):
        allowance = pace.allowance(4, 5 * STEP, is_reading=True)
    assert allowance == pytest.approx((SLOWDOWN / COLD - 1) * 5 * STEP)
