"""The admin: records are found and read, not changed; nothing in them comes alive."""

from __future__ import annotations

import pytest
from asgiref.sync import async_to_sync
from django.test import Client

from tests.service.cast import make_response, principal, signed_in, with_key
from tests.service.work import deltas, make_waiting, make_worker, numbering, take
from webtrace import journey
from webtrace.accounts.models import ApiKey, User
from webtrace.client_events import ResponseCreate
from webtrace.conversations import endings, event_table, log, services
from webtrace.conversations.endings import Ending
from webtrace.conversations.log import Place, Write
from webtrace.conversations.models import Response
from webtrace.dispatch import jobs
from webtrace.dispatch.models import Worker
from webtrace.events import Usage
from webtrace.gateway import rejections
from webtrace.gateway.incoming import Incoming
from webtrace.safety.models import SafetyDecision

ATTACK = "<script>alert(1)</script><img src=x onerror=alert(1)>"
PAGES = [
    "accounts/user", "accounts/apikey", "conversations/conversation", "conversations/response",
    "gateway/rejectedframe", "gateway/userlimit", "dispatch/worker", "dispatch/job", "safety/safetydecision",
]  # fmt: skip
RECORDS = [page for page in PAGES if page not in ("accounts/user", "gateway/userlimit")]


@pytest.mark.parametrize("page", PAGES)
def test_every_list_opens_searches_and_is_for_staff_only(staff: User, owner: User, guest: User, page: str) -> None:
    address = f"/admin/{page}/"
    make_response(owner)
    assert signed_in(staff).get(address, {"q": "owner"}).status_code == 200
    for client in (Client(), signed_in(owner), signed_in(guest), with_key(staff)):
        assert client.get(address).status_code == 302


def test_staff_see_where_a_worker_runs(staff: User) -> None:
    worker = make_worker()
    Worker.objects.filter(pk=worker.pk).update(host="inside.example.org", process_id=987_654)
    page = signed_in(staff).get("/admin/dispatch/worker/", {"q": "inside"}).content.decode()
    assert "inside.example.org" in page
    assert "987654" in page.replace(",", "")


@pytest.mark.parametrize("page", RECORDS)
def test_records_are_not_made(staff: User, page: str) -> None:
    assert signed_in(staff).get(f"/admin/{page}/add/").status_code == 403


def test_a_response_shows_its_events_and_cannot_be_changed(staff: User, owner: User) -> None:
    response = make_response(owner, "A very particular answer.")
    address = f"/admin/conversations/response/{response.pk}/change/"
    page = signed_in(staff).get(address).content.decode()
    for part in ("response.created", "response.output_text.delta", "response.completed", "A very particular answer."):
        assert part in page
    assert signed_in(staff).post(address, {"text": "forged"}).status_code == 403
    response.refresh_from_db()
    assert response.text == "A very particular answer."


def test_a_response_shows_what_safety_decided_and_is_found_by_it(staff: User, owner: User) -> None:
    response = make_response(owner)
    SafetyDecision.objects.create(
        response=response, direction="input", decision="refuse", reason="a threat", technique="t", version="v7"
    )
    page = signed_in(staff).get(f"/admin/conversations/response/{response.pk}/change/").content.decode()
    assert "a threat" in page
    for decision, found in {"refuse": True, "allow": False}.items():
        query = {"safety_decisions__decision__exact": decision}
        assert (
            str(response.pk) in signed_in(staff).get("/admin/conversations/response/", query).content.decode()
        ) is found


@pytest.mark.parametrize(
    "query",
    [
        {"status": "completed"},
        {"finish_reason": "stop"},
        {"owner__is_guest__exact": "0"},
        {"q": "owner"},
        {"q": "joke"},
    ],
)
def test_responses_are_found_by(staff: User, owner: User, query: dict[str, str]) -> None:
    response = make_response(owner, "a joke")
    assert str(response.pk) in signed_in(staff).get("/admin/conversations/response/", query).content.decode()
    other = {name: "no such thing" if name == "q" else {"0": "1"}.get(value, "x") for name, value in query.items()}
    assert str(response.pk) not in signed_in(staff).get("/admin/conversations/response/", other).content.decode()


def test_a_long_log_shows_its_beginning_and_its_end(staff: User, owner: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_table, "MOST_ROWS", 4)
    response = make_waiting(owner)
    take(response, make_worker())
    words = deltas(numbering(response.pk, 1, 1), *(f"word{number} " for number in range(20)))
    log.append([Write(response.pk, 1, words)])
    page = signed_in(staff).get(f"/admin/conversations/response/{response.pk}/change/").content.decode()
    assert [f"word{number} " in page for number in (0, 1, 2, 15, 16, 19)] == [True, True, False, False, True, True]
    assert "… 14 events …" in page


def test_a_response_is_followed_through_the_log(owner: User, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "webtrace")
    message = ResponseCreate(event_id="e", input="a secret question")
    incoming = Incoming(message=message, transport="websocket", frame="{}", headers=(), encrypted=False)
    outcome = async_to_sync(journey.admit)(incoming, principal(owner))
    assert isinstance(outcome, journey.Admitted)
    response = Response.objects.get()
    take(response, make_worker())
    ending = Ending("stop", "a secret answer", Usage(3, 4))
    end = endings.end_line(response_id=response.pk, place=Place(1, 2), ending=ending)
    assert jobs.end(response_id=response.pk, epoch=1, lines=[end], ending=ending)
    refused = Incoming(
        message=ResponseCreate(event_id="f", input=""), transport="http", frame="{}", headers=(), encrypted=False
    )
    assert isinstance(async_to_sync(journey.admit)(refused, principal(owner)), journey.Refused)
    lines = [record.getMessage() for record in caplog.records]
    told = [line.split(": ", 1)[1].split(" ")[0] for line in lines if line.startswith(f"Response {response.pk}: ")]
    assert told == ["admitted,", "taken", "completed"]
    assert any("refused (invalid_value)" in line for line in lines)
    assert "secret" not in "".join(lines)


@pytest.mark.parametrize("page", ["safety/safetydecision", "accounts/apikey"])
def test_records_behind_another_are_filtered_by_user_too(staff: User, owner: User, stranger: User, page: str) -> None:
    for user in (owner, stranger):
        SafetyDecision.objects.create(
            response=make_response(user), direction="input", decision="refuse", reason=f"of {user}", version="1"
        )
        ApiKey.make(user=user, name=f"of {user}")
    client = signed_in(staff)
    listed = client.get(f"/admin/{page}/").content.decode()
    link = next(part.split('"')[0] for part in listed.split('href="')[1:] if part.split("</a>")[0].endswith(">owner"))
    filtered = client.get(f"/admin/{page}/{link.replace('&amp;', '&')}").content.decode()
    assert "of owner" in filtered
    assert "of stranger" not in filtered


def test_conversations_are_found_by_what_safety_decided(staff: User, owner: User) -> None:
    response = make_response(owner)
    for number in range(2):
        SafetyDecision.objects.create(
            response=response, direction="input", decision="refuse", reason=f"{number}", version="1"
        )
    for decision, found in {"refuse": 1, "allow": 0}.items():
        query = {"responses__safety_decisions__decision__exact": decision}
        page = signed_in(staff).get("/admin/conversations/conversation/", query).content.decode()
        assert page.count(f"/admin/conversations/conversation/{response.conversation_id}/change/") == found


def test_records_are_filtered_by_their_owner(staff: User, owner: User, stranger: User) -> None:
    mine, others = make_response(owner), make_response(stranger)
    page = signed_in(staff).get("/admin/conversations/response/").content.decode()
    assert f'<a href="?owner__id__exact={owner.pk}">owner</a>' in page
    page = signed_in(staff).get("/admin/conversations/response/", {"owner__id__exact": owner.pk}).content.decode()
    assert str(mine.pk) in page
    assert str(others.pk) not in page


def test_prompt_answer_and_title_are_inert(staff: User, owner: User) -> None:
    response = make_response(owner, ATTACK, input=ATTACK, instructions=ATTACK)
    services.give_feedback(response=response, rating=-1, comment=ATTACK)
    rejections.record(code="x", message=ATTACK, field=ATTACK, transport="websocket", owner=owner)
    owner.username = ATTACK
    owner.save()
    client = signed_in(staff)
    frame = owner.rejectedframe_set.get()
    for address in (
        "/admin/conversations/conversation/",
        f"/admin/conversations/conversation/{response.conversation_id}/change/",
        "/admin/conversations/response/",
        f"/admin/conversations/response/{response.pk}/change/",
        "/admin/gateway/rejectedframe/",
        f"/admin/gateway/rejectedframe/{frame.pk}/change/",
        "/admin/gateway/userlimit/",
        "/admin/accounts/user/",
    ):
        page = client.get(address)
        assert page.status_code == 200
        assert "<script>alert" not in page.content.decode(), address
        assert "<img src=x" not in page.content.decode(), address
        assert "script-src 'self'" in page["Content-Security-Policy"]


def test_a_keys_secret_is_nowhere(staff: User, owner: User) -> None:
    key, secret = ApiKey.make(user=owner, name="mine")
    for address in ("/admin/accounts/apikey/", f"/admin/accounts/apikey/{key.pk}/change/"):
        page = signed_in(staff).get(address).content.decode()
        assert key.prefix in page
        assert secret not in page
        assert key.digest not in page


def test_staff_revoke_a_key(staff: User, owner: User) -> None:
    key, secret = ApiKey.make(user=owner)
    form = {"action": "revoke", "_selected_action": str(key.pk)}
    assert signed_in(staff).post("/admin/accounts/apikey/", form).status_code == 302
    assert Client(headers={"Authorization": f"Bearer {secret}"}).get("/api/v1/me").status_code == 401


def test_staff_set_a_users_limit(staff: User, owner: User) -> None:
    address = f"/admin/gateway/userlimit/{owner.pk}/change/"
    assert signed_in(staff).post(address, {"answers_per_hour": "7", "max_tokens": ""}).status_code == 302
    me = signed_in(owner).get("/api/v1/me").json()
    assert (me["limit"]["limit"], me["max_tokens"]) == (7, 4096)
