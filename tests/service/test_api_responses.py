"""/api/v1/responses: for its owner, whoever that is; for everybody else it does not exist."""

from __future__ import annotations

import json

import pytest
from django.test import Client

from tests.service.cast import make_response, path, signed_in, with_key
from webtrace.accounts.models import User
from webtrace.conversations.models import Response

JSON = "application/json"


@pytest.fixture
def response(owner: User) -> Response:
    return make_response(owner, "**Why** did the senator cross the road?")


@pytest.mark.parametrize("rest", ["", "/events", "/views/softmax"])
def test_only_the_owner_sees_it(response: Response, stranger: User, staff: User, guest: User, rest: str) -> None:
    for user in (stranger, staff, guest):
        assert signed_in(user).get(path(response, rest)).status_code == 404
        assert with_key(user).get(path(response, rest)).status_code == 404
    anonymous = Client().get(path(response, rest))
    assert anonymous.status_code == 401
    assert anonymous.json()["error"]["code"] == "unauthenticated"


def test_owner_reads_the_record_by_session_and_by_key(response: Response, owner: User) -> None:
    for client in (signed_in(owner), with_key(owner)):
        got = client.get(path(response)).json()
        assert (got["status"], got["finish_reason"]) == ("completed", "stop")
        assert got["text"] == "**Why** did the senator cross the road?"
        assert got["html"] == "<p><strong>Why</strong> did the senator cross the road?</p>\n"
        assert got["usage"] == {"input_tokens": 30, "output_tokens": 5, "cached_tokens": 0}
        assert got["error"] is None
        assert got["feedback"] is None
        assert set(got["timings"]) == {"queue_ms", "time_to_first_token_ms", "end_to_end_ms"}


def test_guest_reads_their_own(guest: User) -> None:
    assert signed_in(guest).get(path(make_response(guest))).status_code == 200


def test_revoked_key_and_wrong_key_are_refused(response: Response, owner: User) -> None:
    client = with_key(owner)
    assert client.get(path(response)).status_code == 200
    owner.api_keys.get().delete()
    assert client.get(path(response)).status_code == 401
    for header in ("Bearer wt_nonsense", "Basic b3duZXI6", "Bearer "):
        assert Client(headers={"Authorization": header}).get(path(response)).status_code == 401


def test_events_come_in_pages_after_a_place(response: Response, owner: User) -> None:
    client = signed_in(owner)
    whole = client.get(path(response, "/events")).json()
    assert [event["sequence_number"] for event in whole["events"]] == [1, 2, 3]
    assert whole["finished"] is True
    rest = client.get(path(response, "/events"), {"epoch": 0, "after": 2}).json()
    assert [event["type"] for event in rest["events"]] == ["response.completed"]
    assert client.get(path(response, "/events"), {"epoch": 0, "after": 3}).json() == {"events": [], "finished": True}


@pytest.mark.parametrize(("name", "value"), [("after", "x"), ("epoch", "-1"), ("after", "99999999999")])
def test_events_refuse_a_place_that_is_none(response: Response, owner: User, name: str, value: str) -> None:
    got = signed_in(owner).get(path(response, "/events"), {name: value})
    assert got.status_code == 400
    assert got.json()["error"]["field"] == name


def test_feedback_is_given_changed_and_taken_back(response: Response, owner: User) -> None:
    client = signed_in(owner)
    for given in ({"rating": 1, "comment": "ha"}, {"rating": -1, "comment": ""}):
        assert client.put(path(response, "/feedback"), given, content_type=JSON).status_code == 200
        assert client.get(path(response)).json()["feedback"] == given
    assert client.put(path(response, "/feedback"), {"rating": None}, content_type=JSON).status_code == 200
    assert client.get(path(response)).json()["feedback"] is None


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ('{"rating": 5}', "rating"),
        ('{"comment": "x"}', "rating"),
        ('{"rating": 1, "stars": 2}', "stars"),
        ('{"rating": 1, "comment": 3}', "comment"),
        ('{"rating": 1, "comment": "\\ud800"}', "comment"),
        ('{"rating": 1, "comment": "\\u0000"}', "comment"),
        (json.dumps({"rating": 1, "comment": "x" * 2001}), "comment"),
        ("{", None),
    ],
)
def test_feedback_names_the_wrong_field(response: Response, owner: User, body: str, field: str | None) -> None:
    got = signed_in(owner).put(path(response, "/feedback"), body, content_type=JSON)
    assert got.status_code == 400
    assert got.json()["error"].get("field") == field


def test_writing_by_session_needs_the_token_and_by_key_does_not(response: Response, owner: User) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(owner, backend="django.contrib.auth.backends.ModelBackend")
    refused = browser.put(path(response, "/feedback"), {"rating": 1}, content_type=JSON)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "csrf")
    browser.get("/accounts/login/")  # a page with a form sets the cookie
    browser.get("/")
    token = browser.cookies["csrftoken"].value
    allowed = browser.put(path(response, "/feedback"), {"rating": 1}, headers={"X-CSRFToken": token}, content_type=JSON)
    assert allowed.status_code == 200
    assert with_key(owner).put(path(response, "/feedback"), {"rating": 1}, content_type=JSON).status_code == 200


def test_nobody_is_told_so_before_any_token_is_asked_for(response: Response) -> None:
    nobody = Client(enforce_csrf_checks=True)
    assert nobody.put(path(response, "/feedback"), {"rating": 1}, content_type=JSON).status_code == 401
    assert nobody.post("/v1/chat/completions", {}, content_type=JSON).status_code == 401


def test_wrong_method_is_told_the_right_ones(response: Response, owner: User) -> None:
    got = signed_in(owner).post(path(response))
    assert (got.status_code, got["Allow"]) == (405, "GET, HEAD")
    models, chat = with_key(owner).post("/v1/models"), with_key(owner).get("/v1/chat/completions")
    assert (models.status_code, models["Allow"]) == (405, "GET, HEAD")
    assert (chat.status_code, chat["Allow"]) == (405, "POST")


def test_what_can_be_got_can_be_asked_for_its_head(response: Response, owner: User, stranger: User) -> None:
    for address in (path(response), path(response, "/events"), "/api/v1/me", "/v1/models"):
        head, got = with_key(owner).head(address), with_key(owner).get(address)
        assert (head.status_code, head.content) == (200, b""), address
        assert head["Content-Type"] == got["Content-Type"]
    assert with_key(stranger).head(path(response)).status_code == 404
    assert with_key(owner).head(path(response, "/feedback")).status_code == 405


def test_what_is_no_id_is_not_found(owner: User) -> None:
    assert signed_in(owner).get("/api/v1/responses/nonsense").status_code == 404


def test_a_view_of_a_model_nobody_runs_is_unavailable(response: Response, owner: User) -> None:
    Response.objects.filter(pk=response.pk).update(fingerprint="gone")
    got = signed_in(owner).get(path(response, "/views/softmax"), {"layer": 0})
    assert (got.status_code, got.json()["error"]["code"]) == (503, "unavailable")
    assert int(got["Retry-After"]) >= 1


@pytest.mark.parametrize(("name", "value"), [("layer", "nan"), ("layer", "1e300"), ("head", "9" * 300)])
def test_a_view_refuses_numbers_that_are_none(response: Response, owner: User, name: str, value: str) -> None:
    got = signed_in(owner).get(path(response, "/views/softmax"), {name: value})
    assert got.status_code == 400
    assert got.json()["error"]["field"] == name


def test_the_answers_html_is_inert(owner: User) -> None:
    attack = (
        "[x](javascript:alert(1)) <img src=x onerror=alert(1)> ![pixel](http://evil.example/p.png) <script>1</script>"
    )
    html = signed_in(owner).get(path(make_response(owner, attack))).json()["html"]
    for tag in ("<img", "<script", 'href="javascript'):
        assert tag not in html
    assert "&lt;img src=x onerror=alert(1)&gt;" in html
