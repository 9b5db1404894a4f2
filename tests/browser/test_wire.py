"""The page against a wire that loses, doubles, reorders, takes back and breaks off."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Open, ask, await_end
from tests.browser.wire import Event, Script, Wire
from tests.service.site import Site

pytestmark = pytest.mark.browser


def visit(site: Site, open_page: Open) -> tuple[Page, Wire]:
    wires: list[Wire] = []
    page = open_page(site, prepare=lambda page: wires.append(Wire(page)))
    expect(page.locator(".connection")).to_have_text("Connected")
    return page, wires[0]


def sent(wire: Wire, page: Page, kind: str, nth: int = 0) -> Event:
    """The client's nth frame of this kind, waited for."""
    for _ in range(200):
        found = [frame for frame in wire.frames if frame["type"] == kind]
        if len(found) > nth:
            return found[nth]
        page.wait_for_timeout(20)
    raise AssertionError(f"no {kind} number {nth} in {wire.frames}")


def asked(site: Site, open_page: Open, text: str = "hello") -> tuple[Page, Wire, Script]:
    page, wire = visit(site, open_page)
    ask(page, text)
    script = Script("r1", sent(wire, page, "response.create"))
    wire.send(*script.events)
    script.new_epoch()
    wire.send(script.begin())
    wire.logs["r1"] = script.events
    return page, wire, script


def growing(page: Page) -> Locator:
    return page.locator(".answer-text.growing").last


def test_a_hole_is_filled_from_the_log(site: Site, open_page: Open) -> None:
    page, wire, script = asked(site, open_page)
    wire.send(script.say("one "))
    script.say("two ")  # lost on the way
    wire.send(script.say("three "))
    expect(growing(page)).to_have_text("one two three ")
    assert wire.asked
    assert "epoch=1&after=2" in wire.asked[0]
    wire.send(script.end("one two three "))
    await_end(page)


@pytest.mark.parametrize("width", [320, 360, 480, 560, 700])
def test_the_step_row_stays_when_newest_comes_and_goes(site: Site, open_page: Open, width: int) -> None:
    page, wire, script = asked(site, open_page)
    wire.send(script.say("one two"), script.step(0, "one"), script.step(1, " two"))
    page.set_viewport_size({"width": width, "height": 740})
    page.get_by_role("tab", name="Inside").click()
    row = page.locator(".scrubber")
    newest = row.get_by_role("button", name="Newest")
    expect(row.locator(".scrubber-place")).to_have_text("step 1 of 0–1")
    expect(newest).to_be_hidden()
    places = "row => [...row.querySelectorAll('*')].map((one) => JSON.stringify(one.getBoundingClientRect()))"
    before = row.evaluate(places)
    row.get_by_role("slider").fill("1")
    expect(newest).to_be_visible()
    assert row.evaluate(places) == before
    newest.click()
    expect(newest).to_be_hidden()
    assert row.evaluate(places) == before


def test_order_and_doubles_do_not_matter(site: Site, open_page: Open) -> None:
    page, wire, script = asked(site, open_page)
    events = [script.say(f"{number} ") for number in range(6)]
    wire.logs["r1"] = []  # the log has nothing yet: only what arrives can fill the holes
    wire.send(events[0], events[3], events[1], events[1], events[5], events[0], events[2], events[4])
    expect(growing(page)).to_have_text("0 1 2 3 4 5 ")


def test_a_silent_response_is_read_from_the_log(site: Site, open_page: Open) -> None:
    page, wire, script = asked(site, open_page)
    wire.send(script.say("one "))
    script.end("one ")  # the last event is lost
    await_end(page)
    assert wire.asked


def test_dropped_trace_events_are_no_hole_and_are_read_later(site: Site, open_page: Open) -> None:
    page, wire, script = asked(site, open_page)
    wire.send(script.say("a"), script.step(0, "a"))
    script.step(1, "b")
    lost = script.step(2, "c")
    number = lost["sequence_number"]
    wire.send(
        {"type": "trace.dropped", "response_id": "r1", "epoch": 1, "sequence_number": 0, "first": number - 1,
         "last": number}
    )  # fmt: skip
    wire.send(script.say("bcd"), script.step(3, "d"))
    expect(growing(page)).to_have_text("abcd")
    expect(page.locator(".answer-tokens .token")).to_have_text(["a", "b", "c", "d"])


def test_retracted_characters_disappear(site: Site, open_page: Open) -> None:
    page, wire, script = asked(site, open_page)
    wire.send(script.say("fine 👩‍👩‍👧 bad"))
    expect(growing(page)).to_have_text("fine 👩‍👩‍👧 bad")
    # Code points, not UTF-16 units: " bad" and the last of the family's five.
    wire.send(script.add("response.output_text.retracted", characters=5, reason="output safety"))
    expect(growing(page)).to_have_text("fine 👩‍👩‍")
    wire.send(script.end("fine", "incomplete", "content_filter"))
    await_end(page, "output safety held the rest back")
    expect(growing(page)).to_have_text("fine")


def test_an_interruption_cuts_back_to_what_counts(site: Site, open_page: Open) -> None:
    page, wire, script = asked(site, open_page)
    wire.send(script.say("kept"), script.step(0, "kept"))
    counts = script.number
    wire.send(script.say(" void"), script.step(1, " void"))
    expect(page.locator(".answer-tokens .token")).to_have_count(2)
    script.new_epoch()
    wire.send(script.end("kept", "interrupted", "worker_lost", last_sequence_number=counts))
    await_end(page, "Interrupted: the worker was lost")
    expect(growing(page)).to_have_text("kept")
    expect(page.locator(".answer-tokens .token")).to_have_text(["kept"])
    page.get_by_role("button", name="Try once more").click()
    assert sent(wire, page, "response.create", 1)["input"] == []


def test_a_lost_connection_is_said_and_resumed_where_it_broke(site: Site, open_page: Open) -> None:
    page, wire, script = asked(site, open_page)
    wire.send(script.say("one "))
    expect(growing(page)).to_have_text("one ")
    page.evaluate(
        """() => {
          const state = document.querySelector(".answer-state");
          window.said = [];
          new MutationObserver(() => window.said.push(state.textContent)).observe(state, { childList: true });
        }"""
    )
    wire.lose()
    resume = sent(wire, page, "response.resume")
    assert (resume["response_id"], resume["epoch"], resume["after"]) == ("r1", 1, 2)
    expect(page.locator(".answer-state")).to_have_text("Thinking")
    assert page.evaluate("window.said") == [
        "Connection lost: the answer goes on, and will be shown when it is back", "Thinking",
    ]  # fmt: skip
    wire.send(script.say("two "), script.end("one two "))
    await_end(page)
    expect(growing(page)).to_have_text("one two ")


def test_a_request_sent_into_a_broken_connection_is_sent_again(site: Site, open_page: Open) -> None:
    page, wire = visit(site, open_page)
    ask(page, "hello")
    first = sent(wire, page, "response.create")
    wire.lose()
    second = sent(wire, page, "response.create", 1)
    assert first == second
    script = Script("r1", second)
    wire.logs["r1"] = script.events
    wire.send(*script.events)
    script.new_epoch()
    wire.send(script.begin(), script.say("here"), script.end("here"))
    await_end(page)
    assert len([frame for frame in wire.frames if frame["type"] == "response.create"]) == 2


def test_two_conversations_keep_their_own_text(site: Site, open_page: Open) -> None:
    page, wire, first = asked(site, open_page, "first")
    page.get_by_role("link", name="New conversation").click()
    ask(page, "second")
    second = Script("r2", sent(wire, page, "response.create", 1))
    wire.logs["r2"] = second.events
    wire.send(*second.events)
    second.new_epoch()
    wire.send(second.begin())
    for number in range(5):
        wire.send(first.say(f"f{number} "), second.say(f"s{number} "))
    expect(growing(page)).to_have_text("s0 s1 s2 s3 s4 ")
    wire.send(first.end("f0 f1 f2 f3 f4 "), second.end("s0 s1 s2 s3 s4 "))
    await_end(page)
    expect(page.locator(".message-answer")).to_have_count(1)
    expect(growing(page)).to_have_text("s0 s1 s2 s3 s4 ")


def test_stop_before_the_service_has_answered_is_not_forgotten(site: Site, open_page: Open) -> None:
    page, wire = visit(site, open_page)
    ask(page, "hello")
    create = sent(wire, page, "response.create")
    page.get_by_role("button", name="Stop").click()
    assert all(frame["type"] != "response.cancel" for frame in wire.frames)
    script = Script("r1", create)
    wire.logs["r1"] = script.events
    wire.send(*script.events)
    assert sent(wire, page, "response.cancel")["response_id"] == "r1"
    script.new_epoch()
    wire.send(script.end("", "cancelled", "cancelled"))
    await_end(page, "Stopped")


def test_the_queue_and_the_frames_own_errors_are_said(site: Site, open_page: Open) -> None:
    page, wire = visit(site, open_page)
    ask(page, "hello")
    create = sent(wire, page, "response.create")
    script = Script("r1", create)
    wire.logs["r1"] = script.events
    wire.send(*script.events, script.add("response.queued", position=2))
    await_end(page, "Queued behind 2 requests")
    script.new_epoch()
    wire.send(script.begin(), script.end("done"))
    await_end(page)
    ask(page, "again")
    again = sent(wire, page, "response.create", 1)
    wire.send({"type": "error", "code": "too_large", "message": "At most 9 bytes.", "event_id": again["event_id"]})
    await_end(page, "Failed: At most 9 bytes.")


def test_a_stream_faster_than_reading_is_shown_whole_and_stop_is_sent_in_its_midst(site: Site, open_page: Open) -> None:
    page, wire, script = asked(site, open_page)
    wire.logs["r1"] = []  # what the stream loses stays lost
    words = [f"w{number} " for number in range(1000)]
    for first in range(0, 1000, 50):
        batch = range(first, first + 50)
        wire.send(*(event for n in batch for event in (script.say(words[n]), script.step(n, words[n]))))
        if first == 500:
            page.get_by_role("button", name="Stop").click()
    assert sent(wire, page, "response.cancel")["response_id"] == "r1"
    text = "".join(words)
    wire.send(script.end(text, "cancelled", "cancelled"))
    await_end(page, "Stopped")
    expect(growing(page)).to_have_text(text)
