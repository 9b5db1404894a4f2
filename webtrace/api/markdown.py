"""Finished answers as HTML: Markdown with raw HTML off, then sanitised. Images are dropped: they would call home."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import nh3
import pygments
from markdown_it import MarkdownIt
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

TAGS = {
    "p", "br", "hr", "em", "strong", "s", "code", "pre", "span", "blockquote", "ul", "ol", "li", "a",
    "h1", "h2", "h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td",
}  # fmt: skip
ATTRIBUTES = {"a": {"href", "title"}, "code": {"class"}, "span": {"class"}, "ol": {"start"}}
# Parsers' time grows with the square of some texts' lengths, and anybody may write one: what is longer stays plain.
LONGEST_FORMATTED = 20_000  # characters
LONGEST_COLOURED = 5_000  # of one block of code
COLOURING_S = 0.1  # of processor time, for all blocks of an answer
Token = tuple[Any, str]  # its type and its text
_formatter = HtmlFormatter(nowrap=True)  # classes, no inline styles


@lru_cache(maxsize=256)
def to_html(text: str) -> str | None:
    """Safe HTML of an answer; null where it is too long to be formatted. Code is coloured with Pygments' short class
    names."""
    if len(text) > LONGEST_FORMATTED:
        return None
    options = {"html": False, "linkify": False, "highlight": _Colours().of}
    markdown = MarkdownIt("commonmark", options).enable(["table", "strikethrough"]).disable("image")
    rendered = markdown.render(text)
    return nh3.clean(
        rendered,
        tags=TAGS,
        attributes=ATTRIBUTES,
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer nofollow",
    )


class _Colours:
    """Colours the code of one answer, while there is time."""

    def __init__(self) -> None:
        self._until = time.thread_time() + COLOURING_S

    def of(self, code: str, language: str, _: str) -> str:
        """Highlighted inner HTML; "" lets markdown-it escape the code itself."""
        if not language or len(code) > LONGEST_COLOURED:
            return ""
        try:
            tokens = list(self._in_time(get_lexer_by_name(language).get_tokens(code)))
        except (ClassNotFound, _TooSlow):
            return ""
        return str(pygments.format(tokens, _formatter))

    def _in_time(self, tokens: Iterable[Token]) -> Iterator[Token]:
        for token in tokens:
            if time.thread_time() > self._until:
                raise _TooSlow
            yield token


class _TooSlow(Exception):
    """There was no time left to colour this."""
