"""Finished answers as HTML: Markdown with raw HTML off, then sanitised. Images are dropped: they would call home."""

from __future__ import annotations

from functools import lru_cache

import nh3
from markdown_it import MarkdownIt
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

TAGS = {
    "p", "br", "hr", "em", "strong", "s", "code", "pre", "span", "blockquote", "ul", "ol", "li", "a",
    "h1", "h2", "h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td",
}  # fmt: skip
ATTRIBUTES = {"a": {"href", "title"}, "code": {"class"}, "span": {"class"}, "ol": {"start"}}
LONGEST_HIGHLIGHTED = 50_000  # characters; longer code stays plain
_formatter = HtmlFormatter(nowrap=True)  # classes, no inline styles


def to_html(text: str) -> str:
    """Safe HTML of an answer. Code is coloured with Pygments' short class names."""
    rendered = _markdown().render(text)
    return nh3.clean(
        rendered,
        tags=TAGS,
        attributes=ATTRIBUTES,
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer nofollow",
    )


@lru_cache(maxsize=1)
def _markdown() -> MarkdownIt:
    options = {"html": False, "linkify": False, "highlight": _coloured}
    return MarkdownIt("commonmark", options).enable(["table", "strikethrough"]).disable("image")


def _coloured(code: str, language: str, _: str) -> str:
    """Highlighted inner HTML; "" lets markdown-it escape the code itself."""
    if not language or len(code) > LONGEST_HIGHLIGHTED:
        return ""
    try:
        lexer = get_lexer_by_name(language)
    except ClassNotFound:
        return ""
    return str(highlight(code, lexer, _formatter))
