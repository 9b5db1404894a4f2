"""Stage 25: the answer is held back in windows until each has been judged."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable

from inference.classifier import Card
from webtrace.reporting import service_reports
from webtrace.safety.decisions import Judgement, judge_output
from webtrace.safety.passages import JOINED_CHARACTERS, score_passages

Judge = Callable[[list[str]], Awaitable[list[dict[str, float]]]]

SHORTEST_SENTENCE = 20  # shorter ones are judged together with the next
WINDOW_CHARACTERS = 100  # where no sentence ends, a window is judged after so many
LONGEST_WINDOW = 240
SHOWN_WINDOWS = 100

_SENTENCE_ENDS = re.compile(r"(?<!\d)[.!?…]['\"”’)\]]*\s*$|\n$")
_MAY_GO_ON = re.compile(r"(?:\d[ -]?){4,}$|\S*@\S*$")  # a long number or an address, which must be read whole


class OutputGate:
    """Judges the windows of one answer in order. Once one has not passed, none after it does."""

    def __init__(self, judge: Judge, card: Card | None) -> None:
        self._judge = judge
        self._card = card
        self._before = ""  # the end of what has passed: the next window is read together with it
        self._windows: list[service_reports.OutputWindow] = []
        self._num_released = 0
        self._num_withheld = 0
        self.spent_ms = 0.0  # time the windows waited for their judgement

    def is_due(self, text: str) -> bool:
        """Whether what is held back is a window: a sentence, or some words, but no half of a number or address."""
        if _SENTENCE_ENDS.search(text) and len(text) >= SHORTEST_SENTENCE:
            return True
        return len(text) >= LONGEST_WINDOW or (len(text) >= WINDOW_CHARACTERS and self.may_end_after(text))

    @staticmethod
    def may_end_after(text: str) -> bool:
        """Whether a window may be cut here: not within a number or an address."""
        return _MAY_GO_ON.search(text) is None

    async def passes(self, text: str) -> Judgement:
        """Judge the next window, read together with the end of what went before."""
        began = time.perf_counter()
        read = self._before + text
        scored = await score_passages(read, self._judge) if self._card is not None else []
        judgement = judge_output(read, scored, self._card)
        self.spent_ms += (time.perf_counter() - began) * 1000
        start = self._num_released
        self._windows.append(judgement.output_window(start, start + len(text)))
        if judgement.passes:
            self._num_released += len(text)
            self._before = read[-JOINED_CHARACTERS:]
        else:
            self._num_withheld += len(text)
        return judgement

    def withhold(self, text: str) -> None:
        """Count text that came after the window that did not pass."""
        self._num_withheld += len(text)

    def report(self) -> service_reports.OutputSafetyReport | None:
        """Stage 25's data; null when there was no text to judge."""
        if not self._windows:
            return None
        technique = f"{self._card.technique}, and rules" if self._card else "rules"
        return service_reports.OutputSafetyReport(
            technique=technique,
            version=self._card.version if self._card else "no heads",
            windows=self._windows[-SHOWN_WINDOWS:],
            num_characters_released=self._num_released,
            num_characters_withheld=self._num_withheld,
            decision=self._windows[-1].decision,
        )
