"""Answers as HTML: whatever somebody writes, or has the model write, takes no more time than an answer may."""

from __future__ import annotations

import pytest

from webtrace.api import markdown
from webtrace.api.markdown import to_html


def code(language: str, text: str) -> str:
    return f"```{language}\n{text}\n```"


def test_code_is_coloured_by_classes() -> None:
    html = to_html(code("python", "print('one')  # two"))
    assert html is not None
    assert '<span class="nb">print</span>' in html
    assert "style=" not in html


@pytest.mark.parametrize(("language", "text"), [("basemake", "{" * 4900), ("cpp", "\n " * 2400)])
def test_code_that_takes_long_to_read_stays_plain(monkeypatch: pytest.MonkeyPatch, language: str, text: str) -> None:
    monkeypatch.setattr(markdown, "COLOURING_S", 0.01)  # each takes a hundred times as long
    html = to_html(code(language, text))
    assert html is not None
    assert "<span" not in html


def test_all_code_of_an_answer_shares_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(markdown, "COLOURING_S", -1)
    html = to_html(code("python", "print('no time for this')"))
    assert html is not None
    assert "<span" not in html


def test_a_very_long_text_is_not_formatted() -> None:
    assert to_html("*a* " * 5000) is not None
    assert to_html("*a* " * 5001) is None
