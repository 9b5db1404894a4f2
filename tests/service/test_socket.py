"""The WebSocket against a live service: answers, errors, credentials."""

from __future__ import annotations

import json
import urllib.request
import uuid
from typing import Any

import pytest

from tests.service.browser import Browser
from tests.service.site import FAKE_TEXT, Site
from tests.service.socket_client import ENDS, Event, by_cookie, by_key, text_of


def test_an_answer_streams_with_consecutive_numbers(site: Site, key: str) -> None:
    with by_key(site, key) as talk:
        event_id = talk.create()
        events = talk.to_end()
    assert events[0]["type"] == "response.created"
    assert events[0]["event_id"] == event_id
    assert text_of(events) == events[-1]["text"] == FAKE_TEXT
    assert events[-1]["finish_reason"] == "stop"
    for epoch in {event["epoch"] for event in events}:
        numbers = [event["sequence_number"] for event in events if event["epoch"] == epoch]
        assert numbers == list(range(1, len(numbers) + 1))
    stages = [event["stage"] for event in events if event["type"] == "trace.stage"]
    assert stages[:2] == ["request", "gateway"]


def test_a_guest_asks_from_the_page(site: Site) -> None:
    browser = site.browser()
    with by_cookie(site, browser) as talk:
        talk.create()
        events = talk.to_end()
    gateway = next(event["data"] for event in events if event.get("stage") == "gateway")
    assert gateway["principal"] == "guest"
    assert [check["name"] for check in gateway["checks"] if check["passed"]] == [
        "structure", "size", "authentication", "conversation access", "limit", "region", "model", "conversation data",
    ]  # fmt: skip
    me = browser.get("/api/v1/me").json()
    assert me["guest"] is True
    assert me["limit"]["remaining"] == 999
    listed = browser.get("/api/v1/conversations").json()["conversations"]
    assert [row["id"] for row in listed] == [events[0]["conversation_id"]]


@pytest.mark.parametrize(
    ("frame", "code", "field"),
    [
        ("{", "invalid_json", None),
        ("[]", "invalid_value", None),
        ('{"type": "response.destroy", "event_id": "a"}', "invalid_value", "type"),
        ('{"type": "response.create", "event_id": "a"}', "invalid_value", "input"),
        ('{"type": "response.create", "event_id": "a", "input": 3}', "invalid_value", "input"),
        ('{"type": "response.create", "event_id": "a", "input": "\\ud800"}', "invalid_value", "input"),
        ('{"type": "response.create", "event_id": "a", "input": "\\u0000"}', "invalid_value", "input"),
        (
            '{"type": "response.create", "event_id": "a", "input": [{"role": "user", "content": "a\\udfff"}]}',
            "invalid_value",
            "input[0].content",
        ),
        (
            '{"type": "response.create", "event_id": "a", "input": "x", "sampling": {"temperature": NaN}}',
            "invalid_value",
            "sampling.temperature",
        ),
        ('{"type": "response.create", "event_id": "a", "input": "x", "colour": 1}', "invalid_value", "colour"),
        ('{"type": "response.create", "event_id": "", "input": "x"}', "invalid_value", "event_id"),
        (b"\x00\x01", "binary_frame", None),
        (json.dumps({"type": "response.create", "event_id": "a", "input": "x" * 600_000}), "too_large", None),
        ('{"type": "response.cancel", "event_id": "a", "response_id": "nonsense"}', "not_found", "response_id"),
        ('{"type": "trace.watch", "event_id": "a", "response_id": "x", "layer": "a"}', "invalid_value", "layer"),
        (
            '{"type": "trace.watch", "event_id": "a", "response_id": "x", "layer": 0, "head": 0}',
            "not_found",
            "response_id",
        ),
        (
            '{"type": "response.resume", "event_id": "a", "response_id": "f53e5a16-9a0a-4b2c-9a1c-3fd1c9ef0c3a"}',
            "not_found",
            "response_id",
        ),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_frame_that_is_no_message_gets_an_error_and_the_socket_lives(
    site: Site, key: str, frame: str | bytes, code: str, field: str | None
) -> None:
    with by_key(site, key) as talk:
        talk.send(frame)
        error = talk.next()
        assert (error["type"], error["code"], error["field"]) == ("error", code, field)
        assert error["event_id"] == ("a" if '"event_id": "a"' in str(frame) else None)
        talk.create()
        assert talk.to_end()[-1]["type"] == "response.completed"


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("x" * 2_000_000, 1009),
        (b"x" * 2_000_000, 1009),
        (["x" * 400_000] * 5, 1009),  # in fragments
    ],
    ids=["text", "binary", "fragments"],
)
def test_a_frame_too_big_to_be_read_closes_with_the_reason(
    site: Site, key: str, frame: str | bytes | list[str], code: int
) -> None:
    with by_key(site, key) as talk:
        talk.create()
        seen = talk.until("response.output_text.delta")
        talk.connection.send(frame)
        assert talk.close_code() == code
        assert talk.connection.protocol.close_rcvd is not None
        assert "exceeds payload limit of 1048576 octets" in talk.connection.protocol.close_rcvd.reason
    place = {name: seen[-1][name] for name in ("response_id", "epoch")}
    with by_key(site, key) as talk:
        talk.send({"type": "response.resume", "event_id": "r", **place, "after": seen[-1]["sequence_number"]})
        assert text_of(seen + talk.to_end()) == FAKE_TEXT


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"\x81\x82\x00\x00\x00\x00\xc3\x28", 1007),  # text that is no UTF-8
        (b"\x83\x80\x00\x00\x00\x00", 1002),  # an opcode that does not exist
        (b"\xc1\x80\x00\x00\x00\x00", 1002),  # a reserved bit
        (b"\x80\x80\x00\x00\x00\x00", 1002),  # a continuation of nothing
        (b"\x09\x80\x00\x00\x00\x00", 1002),  # a ping in fragments
        (b"\x81\x01x", 1002),  # not masked
        (b"\x81\xff\x7f\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00", 1009),  # 2^63 - 1 bytes to come
    ],
    ids=["utf-8", "opcode", "reserved", "continuation", "ping", "mask", "length"],
)
def test_a_breach_of_the_protocol_is_answered_by_its_code(site: Site, key: str, raw: bytes, code: int) -> None:
    with by_key(site, key) as talk:
        talk.connection.socket.sendall(raw)
        assert talk.close_code() == code


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        ({"text": ""}, "input"),
        ({"text": " \n"}, "input"),
        ({"text": "x" * 100_001}, "input"),
        ({"sampling": {"temperature": -1}}, "sampling.temperature"),
        ({"sampling": {"top_p": 0}}, "sampling.top_p"),
        ({"sampling": {"top_k": 10**12}}, "sampling.top_k"),
        ({"sampling": {"max_tokens": 10**6}}, "sampling.max_tokens"),
        ({"sampling": {"seed": 2**70}}, "sampling.seed"),
        ({"model": "gpt-17"}, "model"),
        ({"conversation_id": "nonsense"}, "conversation_id"),
        ({"parent_id": "nonsense"}, "parent_id"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_refused_request_has_a_journey_that_ends_at_the_gateway(
    site: Site, key: str, request_: dict[str, object], field: str
) -> None:
    with by_key(site, key) as talk:
        talk.create(**request_)  # type: ignore[arg-type]
        events = talk.to_end()
    assert (events[0]["type"], events[-1]["type"]) == ("response.created", "response.failed")
    end = events[-1]
    assert (end["finish_reason"], end["error"]["field"]) == ("refused", field)
    assert end["usage"]["output_tokens"] == 0
    stages = {event["stage"]: event["outcome"] for event in events if event["type"] == "trace.stage"}
    assert stages == {"request": "passed", "gateway": "ended_here"}


def test_no_message_is_bigger_than_its_bound(site: Site, key: str) -> None:
    """The longest requests there may be, in several shapes, and the log that is read again."""
    wide = ("\n" + " " * 80) * 30
    requests: list[dict[str, Any]] = [
        {"text": "\x01" * 7_500, "instructions": '"' * 200},
        {"text": "", "input": [{"role": "user", "content": wide}] * 40, "instructions": wide * 40},
        {"text": "word " * 7_500},
        {"sampling": {"logit_bias": {str(token): 1.5 for token in range(30_000)}}},
        {"sampling": {"stop": ["\x01" * 80_000]}},
        {"sampling": {"max_tokens": 10**300, "seed": 10**4000}},
        {"model": "m" * 200, "text": "👩‍👩‍👧" * 1_000},
    ]
    opener = urllib.request.build_opener()
    opener.addheaders = [("Authorization", f"Bearer {key}")]
    for request in requests:
        with by_key(site, key) as talk:
            talk.create(**request)
            frames = [str(talk.connection.recv(timeout=30))]
            while json.loads(frames[-1])["type"].removeprefix("response.") not in ENDS:
                frames.append(str(talk.connection.recv(timeout=30)))
            assert max(len(frame.encode()) for frame in frames) <= 256_000
            response_id = json.loads(frames[0])["response_id"]
            talk.send({"type": "response.resume", "event_id": "r", "response_id": response_id})
            assert [talk.next() for _ in frames] == [json.loads(frame) for frame in frames]
        with opener.open(f"{site.url}/api/v1/responses/{response_id}/events") as page:
            assert len(page.read()) <= 260_000


def test_cancel_ends_it(site: Site, key: str) -> None:
    with by_key(site, key) as talk:
        talk.create()
        response_id = talk.until("response.output_text.delta")[0]["response_id"]
        talk.send({"type": "response.cancel", "event_id": "c", "response_id": response_id})
        end = talk.to_end()[-1]
    assert (end["type"], end["finish_reason"]) == ("response.cancelled", "cancelled")
    assert FAKE_TEXT.startswith(end["text"])
    assert end["text"] != FAKE_TEXT


def test_resume_gives_exactly_what_is_missing(site: Site, key: str) -> None:
    with by_key(site, key) as talk:
        talk.create()
        seen = talk.until("response.output_text.delta")
        place = seen[-1]
    with by_key(site, key) as talk:
        talk.send(
            {
                "type": "response.resume",
                "event_id": "r",
                "response_id": place["response_id"],
                "epoch": place["epoch"],
                "after": place["sequence_number"],
            }
        )
        rest = talk.to_end()
    assert rest[0]["sequence_number"] == place["sequence_number"] + 1
    assert text_of(seen + rest) == FAKE_TEXT


def test_a_finished_answer_can_be_read_again(site: Site, key: str) -> None:
    with by_key(site, key) as talk:
        talk.create()
        first = talk.to_end()
        talk.send({"type": "response.resume", "event_id": "r", "response_id": first[0]["response_id"]})
        assert talk.to_end() == first


def test_the_same_event_id_gives_the_same_response(site: Site, key: str) -> None:
    once = str(uuid.uuid4())
    with by_key(site, key) as talk:
        talk.create(event_id=once)
        first = talk.to_end()
        talk.create(event_id=once)
        assert talk.to_end() == first
        talk.create("Something else", event_id=once)
        error = talk.next()
    assert (error["type"], error["field"], error["event_id"]) == ("error", "event_id", once)


def test_quick_resend_answers_the_right_question(site: Site, key: str) -> None:
    with by_key(site, key) as talk:
        first_id = talk.create("first")
        created = talk.next()
        assert created["event_id"] == first_id
        talk.send({"type": "response.cancel", "event_id": "c", "response_id": created["response_id"]})
        talk.create("second", conversation_id=created["conversation_id"], parent_id=created["message_id"])
        events: dict[str, list[Event]] = {}
        ended = 0
        while ended < 2:
            event = talk.next()
            events.setdefault(event["response_id"], []).append(event)
            ended += event["type"] in ("response.cancelled", "response.completed")
    second = next(some for identifier, some in events.items() if identifier != created["response_id"])
    assert second[0]["parent_id"] == created["message_id"]
    assert text_of(second) == FAKE_TEXT


def test_two_answers_at_once_keep_their_own_text(site: Site, key: str) -> None:
    with by_key(site, key) as talk:
        ids = {talk.create(f"question {number}") for number in range(3)}
        events: list[Event] = []
        while sum(event["type"] == "response.completed" for event in events) < 3:
            events.append(talk.next())
    responses = {event["response_id"]: event["event_id"] for event in events if event["type"] == "response.created"}
    assert set(responses.values()) == ids
    for response_id in responses:
        assert text_of(events, response_id) == FAKE_TEXT


def test_a_stranger_can_neither_watch_nor_cancel(site: Site, key: str) -> None:
    with by_key(site, key) as talk, by_key(site, site.new_key()) as other:
        talk.create()
        response_id = talk.next()["response_id"]
        for kind in ("cancel", "resume"):
            other.send({"type": f"response.{kind}", "event_id": kind, "response_id": response_id})
            error = other.next()
            assert (error["code"], error["event_id"]) == ("not_found", kind)
        assert talk.to_end()[-1]["type"] == "response.completed"


@pytest.mark.parametrize(
    ("origin", "code"),
    [
        ("https://{host}", 4403),
        ("http://127.0.0.1:1", 4403),
        ("http://evil.example", 4403),
        ("null", 4403),
        ("http://{host}", 4401),  # the right origin, but no session
    ],
)
def test_cookies_need_the_exact_origin(site: Site, origin: str, code: int) -> None:
    browser = site.browser() if code == 4403 else None
    with by_cookie(site, browser, origin=origin.format(host=site.host)) as talk:
        assert talk.next()["type"] == "error"
        assert talk.close_code() == code


def test_a_wrong_key_is_told_and_closed(site: Site) -> None:
    with by_key(site, "wt_wrong") as talk:
        assert talk.next()["code"] == "unauthenticated"
        assert talk.close_code() == 4401


def test_after_logout_elsewhere_nothing_more_is_answered(site: Site) -> None:
    browser = site.browser()
    name, password = f"user-{uuid.uuid4().hex[:12]}", "long enough 17"
    assert browser.submit("/accounts/signup/", username=name, password1=password, password2=password).status == 200
    with by_cookie(site, browser) as talk:
        talk.create()
        talk.to_end()
        assert browser.submit("/accounts/logout/").status == 200
        assert talk.next()["code"] == "unauthenticated"  # told at once, without asking
        assert talk.close_code() == 4401


def test_a_guest_who_logs_in_elsewhere_loses_the_guests_sockets(site: Site) -> None:
    name, password = f"user-{uuid.uuid4().hex[:12]}", "long enough 17"
    site.browser().submit("/accounts/signup/", username=name, password1=password, password2=password)
    guest = site.browser()
    with by_cookie(site, guest) as talk:
        talk.create()
        talk.to_end()
        assert guest.submit("/accounts/login/", username=name, password=password).status == 200
        assert talk.next()["code"] == "unauthenticated"  # told at once, without asking
        assert talk.close_code() == 4401


def test_whoever_watches_an_answer_that_is_deleted_hears_of_an_end(site: Site, key: str) -> None:
    with by_key(site, key) as talk:
        talk.create()
        created = talk.until("response.output_text.delta")[0]
        program = Browser(site.url, {"Authorization": f"Bearer {key}"})
        assert program.send_json("DELETE", f"/api/v1/conversations/{created['conversation_id']}").status == 204
        end = talk.to_end()[-1]
        assert (end["type"], end["text"]) == ("response.cancelled", "")
        assert end["error"]["code"] == "deleted"
        talk.create()
        assert talk.to_end()[-1]["type"] == "response.completed"


def test_a_revoked_key_is_noticed_at_the_next_request(site: Site) -> None:
    key = site.new_key()
    with by_key(site, key) as talk:
        talk.create()
        talk.to_end()
        code = "from webtrace.accounts.models import ApiKey\nfrom django.utils import timezone\n"
        digest = f"ApiKey.objects.filter(digest=ApiKey.digest_of('{key}'))"
        assert site.python(f"{code}result = {digest}.update(revoked_at=timezone.now())") == 1
        talk.create()
        assert talk.next()["code"] == "unauthenticated"
        assert talk.close_code() == 4401
