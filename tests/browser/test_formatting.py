"""The page's small helpers, run where they live: numbers, tokens, views, colours."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import Open
from tests.service.site import Site

pytestmark = pytest.mark.browser


@pytest.fixture
def page(site: Site, open_page: Open) -> Page:
    return open_page(site)


def run(page: Page, module: str, expression: str, argument: Any = None) -> Any:
    """Evaluate `expression` with the module as `m` and the argument as `a`."""
    script = f"async (a) => {{ const m = await import('/static/js/{module}.js'); return ({expression}); }}"
    return page.evaluate(script, argument)


def test_numbers_have_at_most_six_digits_and_words_for_what_is_none(page: Page) -> None:
    written = run(
        page,
        "format",
        "[0, 0.1 + 0.2, 1234567, 12345678901, -2.5e-7, 49152, 1e-5, NaN, -Infinity, null].map((x) => m.number(x))",
    )
    assert written == [
        "0", "0.3", "1,234,570", "1.23457\u202f×\u202f10¹⁰", "−2.5\u202f×\u202f10⁻⁷", "49,152",
        "1\u202f×\u202f10⁻⁵", "not a number", "minus infinity", "none",
    ]  # fmt: skip
    assert run(page, "format", "[m.count(134515008), m.duration(0.012), m.duration(1234), m.bytes(98362432)]") == [
        "134,515,008", "12\u202fµs", "1.23\u202fs", "98.4\u202fMB",
    ]  # fmt: skip


def test_tokens_show_blanks_by_marks_and_copy_as_themselves(page: Page) -> None:
    texts = ["a", "\n\n\t", "b", "   ", "c", "\\xf0\\x9f", "\\x98\\x80", "<b>"]
    kinds = ["word start"] * 5 + ["byte piece"] * 2 + ["punctuation"]
    tokens = [
        {"position": n, "id": n, "text": text, "kind": kind}
        for n, (text, kind) in enumerate(zip(texts, kinds, strict=True))
    ]
    assert run(page, "tokens", "a.map(m.label)", tokens) == [
        "a", "↵↵⇥", "b", "···", "c", "\\xf0\\x9f", "\\x98\\x80", "<b>",
    ]  # fmt: skip
    assert run(page, "tokens", "m.joinedText(a)", tokens) == "a\n\n\tb   c😀<b>"
    copied = """(() => {
        const list = m.chips(a);
        document.body.append(list);
        document.getSelection().selectAllChildren(list);
        const event = new ClipboardEvent("copy", { clipboardData: new DataTransfer(), cancelable: true });
        list.dispatchEvent(event);
        const joined = list.querySelectorAll(".token-joined").length;
        return [event.clipboardData.getData("text/plain"), joined, list.querySelector("b")];
    })()"""
    assert run(page, "tokens", copied, tokens) == ["a\n\n\tb   c😀<b>", 1, None]


def packed(view: dict[str, Any], tensors: dict[str, tuple[str, list[int], bytes]]) -> bytes:
    header: dict[str, Any] = {"__metadata__": {"view": json.dumps(view)}}
    data = b""
    for name, (kind, shape, body) in tensors.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(body)]}
        data += body
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def test_a_view_is_read_wherever_its_numbers_begin(page: Page) -> None:
    body = packed(
        {"slug": "x", "name": "é"},
        {
            "weights": ("F32", [2, 2], struct.pack("<4f", 0.5, -1, 2, 0.25)),
            "ids": ("I32", [3], struct.pack("<3i", 7, -1, 49151)),
        },
    )
    expression = """(() => {
        const { info, tensors } = m.parseView(new Uint8Array(a).buffer);
        return [info, tensors.weights.shape, Array.from(tensors.weights.data), Array.from(tensors.ids.data)];
    })()"""
    assert run(page, "views", expression, list(body)) == [
        {"slug": "x", "name": "é"}, [2, 2], [0.5, -1, 2, 0.25], [7, -1, 49151],
    ]  # fmt: skip


@pytest.mark.parametrize(("code", "num_asked"), [("busy", 5), ("unavailable", 2)])
def test_a_view_that_takes_long_is_waited_for(page: Page, code: str, num_asked: int) -> None:
    """It is there at the fifth try; a service that cannot answer at all is asked twice."""
    asked: list[str] = []

    def answer(route: Any) -> None:
        asked.append(route.request.url)
        if len(asked) == 5:
            route.fulfill(status=200, body=packed({"slug": "kv_cache"}, {}))
        else:
            error = {"code": code, "message": "not yet"}
            route.fulfill(status=503, headers={"Retry-After": "0.01"}, json={"error": error})

    page.route("**/api/v1/responses/r/views/**", answer)
    expression = "m.fetchView('responses/r', 'kv_cache').then(({ info }) => info.slug, ({ code }) => code)"
    assert run(page, "views", expression) == ("kv_cache" if code == "busy" else code)
    assert len(asked) == num_asked


def test_a_view_is_asked_once_kept_and_given_up_when_nobody_waits(page: Page) -> None:
    body = packed({"slug": "mask"}, {"allowed": ("I32", [1], struct.pack("<i", 1))})
    asked: list[str] = []

    def answer(route: Any) -> None:
        asked.append(route.request.url)
        if "busy=1" in route.request.url and len(asked) == 1:
            route.fulfill(
                status=503, headers={"Retry-After": "0.01"}, json={"error": {"code": "unavailable", "message": "busy"}}
            )
        elif "bad=1" in route.request.url:
            route.fulfill(status=400, json={"error": {"code": "invalid_value", "message": "too far", "field": "layer"}})
        else:
            route.fulfill(status=200, body=body)

    page.route("**/api/v1/responses/r/views/**", answer)
    twice = (
        "Promise.all([1, 2].map(() => m.fetchView('responses/r', 'mask', { busy: 1 }))).then((views) => views.length)"
    )
    assert run(page, "views", twice) == 2
    assert len(asked) == 2  # the first was told to come again
    bad = "m.fetchView('responses/r', 'mask', { bad: 1 }).catch((e) => [e.code, e.message, e.field])"
    assert run(page, "views", bad) == [
        "invalid_value", "too far", "layer",
    ]  # fmt: skip
    left = """(() => {
        const controller = new AbortController();
        const { signal } = controller;
        const waiting = m.fetchView('responses/r', 'mask', { slow: 1 }, { signal }).catch((e) => e.name);
        controller.abort();
        return waiting;
    })()"""
    assert run(page, "views", left) == "AbortError"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_map_of_zeros_and_repeated_tokens_keeps_its_rows_and_its_colours(
    site: Site, open_page: Open, scheme: str
) -> None:
    page = open_page(site, scheme=scheme)
    draw = """(() => {
        const host = document.createElement("div");
        document.body.replaceChildren(host);
        const words = ["the", " cat", " and", " the", " dog", " and", " the"];
        const tokens = words.map((text, position) => ({ position, id: position, text, kind: "word start" }));
        m.heatmap(host, {
            values: new Float32Array(49), queries: tokens, keys: tokens, top: 0, leavesOut: "row 0 and column 0",
            selected: { query: 6, key: 3 }, onCell() {},
        });
        return true;
    })()"""
    assert run(page, "charts", draw)
    plot = page.locator(".heatmap-plot[data-drawn]")
    plot.wait_for()
    labels = plot.locator(".ytick text").all_text_contents()
    assert labels == ["0 the", "1 ·cat", "2 ·and", "3 ·the", "4 ·dog", "5 ·and", "6 ·the"]
    assert plot.evaluate("plot => [plot.data[0].z.length, plot.data[0].zmin, plot.data[0].zmax]") == [7, 0, 1]
    colours = page.evaluate(
        """() => [document.querySelector(".heatmap-said"), document.querySelector(".colour-legend"), document.body].map(
            (node) => getComputedStyle(node))
            .map((style, index) => index === 2 ? style.backgroundColor : style.color)"""
    )
    assert len(set(colours)) >= 2
    assert contrast(colours[0], colours[2]) >= 4.5
    assert contrast(colours[1], colours[2]) >= 4.5


def contrast(one: str, other: str) -> float:
    """Contrast of two `rgb(…)` colours. WCAG 2.2."""

    def luminance(colour: str) -> float:
        parts = [int(part) / 255 for part in colour[4:-1].split(",")[:3]]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)
