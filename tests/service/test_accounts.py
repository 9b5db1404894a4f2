"""Sign-up, login, guests, passwords, keys."""

from __future__ import annotations

import io
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from axes.models import AccessAttempt
from django.conf import settings as live_settings
from django.contrib.auth.hashers import MD5PasswordHasher
from django.contrib.sessions.models import Session
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.service.cast import PASSWORD, make_response, make_user, principal, signed_in
from webtrace import journey
from webtrace.accounts.guests import guest_of_session
from webtrace.accounts.models import ApiKey, User
from webtrace.accounts.services import merge_guest
from webtrace.client_events import ResponseCreate
from webtrace.gateway import identity
from webtrace.gateway.incoming import Incoming

FORM = {"password1": PASSWORD, "password2": PASSWORD}


@pytest.fixture(autouse=True)
def fast_passwords(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


def visitor() -> Client:
    """A browser that has opened the page, and nothing more."""
    client = Client()
    assert client.get("/").status_code == 200
    return client


def session_key(client: Client) -> str:
    return str(client.cookies[live_settings.SESSION_COOKIE_NAME].value)


def guest_of(client: Client) -> User:
    """The guest this browser becomes with its first request."""
    user = guest_of_session(session_key(client))
    assert user is not None
    return user


def test_opening_the_page_writes_nothing(db: None) -> None:
    client = visitor()
    key = session_key(client)
    with CaptureQueriesContext(connection) as queries:
        assert client.get("/").status_code == client.get("/api/v1/me").status_code == 200
    assert [query["sql"] for query in queries if not query["sql"].startswith("SELECT")] == []
    assert session_key(client) == key, "one visit, however many pages"
    assert not User.objects.exists()
    assert not Session.objects.exists()


def test_only_a_key_that_was_given_to_a_visitor_makes_a_guest(db: None) -> None:
    key = session_key(visitor())
    made_up = key[:-1] + ("0" if key[-1] != "0" else "1")
    client = signed_in(make_user("somebody"))
    signed_out = session_key(client)
    client.post("/accounts/logout/")
    for wrong in (made_up, signed_out, "", None):
        with pytest.raises(identity.Unauthenticated):
            identity.guest(wrong, "192.0.2.1")
    assert User.objects.count() == 1
    assert identity.guest(key, "192.0.2.1").kind == "guest"
    assert Session.objects.get().session_key == key


def test_whose_guest_is_gone_becomes_another(db: None) -> None:
    client = visitor()
    guest_of(client).delete()
    assert client.get("/").status_code == 200
    assert identity.guest(session_key(client), "192.0.2.1").kind == "guest"


def test_two_requests_of_a_session_are_one_guest(db: None) -> None:
    client = visitor()
    assert guest_of(client) == guest_of(client)
    assert User.objects.get().is_guest
    assert guest_of_session("no such session") is None


def test_where_guests_are_not_admitted_a_visitor_is_nobody(db: None, settings: Any) -> None:
    settings.GUESTS = False
    client = visitor()
    assert live_settings.SESSION_COOKIE_NAME not in client.cookies
    assert client.get("/api/v1/me").json()["max_tokens"] == 0


def test_a_guest_who_signs_up_keeps_everything(db: None) -> None:
    client = visitor()
    guest = guest_of(client)
    response = make_response(guest)
    assert guest.username not in client.get("/accounts/signup/").content.decode()
    assert client.post("/accounts/signup/", {"username": "ada", **FORM}).status_code == 302
    user = User.objects.get()
    assert (user.pk, user.username, user.is_guest) == (guest.pk, "ada", False)
    assert client.get("/api/v1/me").json()["username"] == "ada"
    assert client.get(f"/api/v1/responses/{response.pk}").status_code == 200


@pytest.mark.parametrize(
    ("wanted", "place"), [("/c/1", "/c/1"), ("", "/"), ("//elsewhere.example/", "/"), ("javascript:alert(1)", "/")]
)
def test_whoever_signs_up_comes_back_to_where_they_were(db: None, wanted: str, place: str) -> None:
    client = visitor()
    form = client.get("/accounts/signup/", {"next": wanted}).content.decode()
    assert f'name="next" value="{place}"' in form
    assert client.post("/accounts/signup/", {"username": "ada", "next": wanted, **FORM})["Location"] == place


def test_a_guest_who_logs_in_takes_everything_along(db: None) -> None:
    user = make_user("ada", PASSWORD)
    client = visitor()
    response = make_response(guest_of(client))
    assert client.post("/accounts/login/", {"username": "ada", "password": PASSWORD}).status_code == 302
    response.refresh_from_db()
    assert (response.owner, response.conversation and response.conversation.owner) == (user, user)
    assert not User.objects.filter(is_guest=True).exists()


def test_a_request_that_meets_the_end_of_its_guest_is_refused(db: None) -> None:
    guest = guest_of(visitor())
    merge_guest(guest=User.objects.get(pk=guest.pk), user=make_user("ada"))
    message = ResponseCreate(event_id="e", input="Tell me one")
    incoming = Incoming(message=message, transport="websocket", frame="{}", headers=(), encrypted=False)
    outcome = async_to_sync(journey.admit)(incoming, principal(guest))
    assert isinstance(outcome, journey.Refused)
    assert outcome.error.code == "unauthenticated"


def test_one_address_signs_up_only_so_many(db: None, settings: Any) -> None:
    settings.NEW_USERS_PER_HOUR = 2

    def sign_up(name: str, place: str = "192.0.2.1") -> int:
        return Client(REMOTE_ADDR=place).post("/accounts/signup/", {"username": name, **FORM}).status_code

    assert [sign_up(name) for name in ("ada", "ada", "bea", "cleo")] == [302, 200, 302, 429], (
        "a wrong form costs nothing"
    )
    assert sign_up("cleo", "192.0.2.2") == 302
    assert set(User.objects.values_list("username", flat=True)) == {"ada", "bea", "cleo"}


def test_logging_in_gives_another_session(db: None) -> None:
    make_user("ada", PASSWORD)
    client = visitor()
    before = session_key(client)
    client.post("/accounts/login/", {"username": "ada", "password": PASSWORD})
    assert session_key(client) != before


@pytest.mark.parametrize(
    "form",
    [
        {"username": "ada", "password1": PASSWORD, "password2": "another one 17"},
        {"username": "ada", "password1": "short", "password2": "short"},
        {"username": "guest-123456", **FORM},
        {"username": "Guest_1", **FORM},
        {"username": "ｇｕｅｓｔ7", **FORM},
        {"username": "guest", **FORM},
        {"username": "taken", **FORM},
        {"username": "", **FORM},
    ],
)
def test_sign_up_says_what_is_wrong(db: None, form: dict[str, str]) -> None:
    make_user("taken")
    got = Client().post("/accounts/signup/", form)
    assert got.status_code == 200
    assert "errorlist" in got.content.decode()
    assert User.objects.count() == 1


@pytest.mark.parametrize("name", ["OWNER", "ｏｗｎｅｒ", "ＯＷＮＥＲ"])
def test_nobody_signs_up_under_a_name_that_looks_like_anothers(owner: User, name: str) -> None:
    got = Client().post("/accounts/signup/", {"username": name, **FORM})
    assert (got.status_code, got.context["form"].errors["username"]) == (
        200,
        ["A user with that username already exists."],
    )


def test_too_many_wrong_passwords_lock_the_form(db: None, settings: Any) -> None:
    settings.AXES_FAILURE_LIMIT = 3
    make_user("ada", PASSWORD)
    client = Client()
    for _ in range(3):
        got = client.post("/accounts/login/", {"username": "ada", "password": "wrong"})
    assert got.status_code == 429
    assert "Too many wrong passwords" in got.content.decode()
    right = client.post("/accounts/login/", {"username": "ada", "password": PASSWORD})
    assert right.status_code == 429


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The passwords that were hashed."""
    passwords: list[str] = []
    encode = MD5PasswordHasher.encode

    def noted(self: MD5PasswordHasher, password: str, salt: str) -> str:
        passwords.append(password)
        return encode(self, password, salt)

    monkeypatch.setattr(MD5PasswordHasher, "encode", noted)
    return passwords


@pytest.mark.parametrize("page", ["/accounts/login/", "/admin/login/"])
def test_one_address_tries_only_so_many_passwords(db: None, settings: Any, hashed: list[str], page: str) -> None:
    settings.PASSWORDS_PER_HOUR = 2
    make_user("ada", PASSWORD)
    hashed.clear()

    def log_in(name: str, password: str, place: str = "192.0.2.1") -> int:
        return Client(REMOTE_ADDR=place).post(page, {"username": name, "password": password}).status_code

    assert [log_in(f"nobody-{number}", "wrong") for number in range(5)] == [200, 200, 429, 429, 429]
    assert hashed == ["wrong", "wrong"]
    assert AccessAttempt.objects.count() == 2, "what is refused unseen leaves no row either"
    assert log_in("ada", PASSWORD) == 429
    assert log_in("ada", "wrong", "192.0.2.2") == 200


def test_a_locked_name_takes_nothing_from_its_address(db: None, settings: Any) -> None:
    settings.AXES_FAILURE_LIMIT, settings.PASSWORDS_PER_HOUR = 1, 2
    make_user("ada", PASSWORD)
    for _ in range(3):
        assert Client().post("/accounts/login/", {"username": "bea", "password": "wrong"}).status_code == 429
    assert Client().post("/accounts/login/", {"username": "ada", "password": PASSWORD}).status_code == 302


def test_the_old_password_is_tried_only_so_often(db: None, settings: Any, hashed: list[str]) -> None:
    settings.PASSWORDS_PER_HOUR = 2
    client = signed_in(make_user("ada", PASSWORD))
    hashed.clear()
    form = {"old_password": "wrong", "new_password1": "a new one 1718", "new_password2": "a new one 1718"}
    assert [client.post("/accounts/password/", form).status_code for _ in range(4)] == [200, 200, 429, 429]
    assert hashed == ["wrong", "wrong"]
    assert "Too many passwords" in client.post("/accounts/password/", form).content.decode()


def test_a_guest_has_no_password_to_change(guest: User, hashed: list[str]) -> None:
    for method in ("get", "post"):
        got = getattr(signed_in(guest), method)("/accounts/password/")
        assert (got.status_code, got["Location"]) == (302, "/accounts/signup/")
    assert hashed == []


def test_a_new_password_ends_other_sessions(db: None) -> None:
    user = make_user("ada", PASSWORD)
    here, elsewhere = signed_in(user), signed_in(user)
    form = {"old_password": PASSWORD, "new_password1": "a new one 1718", "new_password2": "a new one 1718"}
    assert here.post("/accounts/password/", form).status_code == 302
    assert here.get("/api/v1/me").json()["username"] == "ada"
    assert elsewhere.get("/api/v1/me").json()["username"] is None


def test_a_key_is_shown_once_works_and_is_revoked(owner: User) -> None:
    client = signed_in(owner)
    page = client.post("/accounts/keys/", {"name": "my script"}).content.decode()
    key = ApiKey.objects.get()
    secret = page.split(key.prefix, 1)[1].split("<", 1)[0]
    program = Client(headers={"Authorization": f"Bearer {key.prefix}{secret}"})
    assert program.get("/api/v1/me").json()["username"] == "owner"
    assert secret not in client.get("/accounts/keys/").content.decode()
    assert client.post(f"/accounts/keys/{key.pk}/revoke/").status_code == 302
    assert program.get("/api/v1/me").status_code == 401


def test_nobody_revokes_anothers_key(owner: User, stranger: User) -> None:
    key, _ = ApiKey.make(user=owner)
    assert signed_in(stranger).post(f"/accounts/keys/{key.pk}/revoke/").status_code == 404
    assert Client().post(f"/accounts/keys/{key.pk}/revoke/").status_code == 302
    key.refresh_from_db()
    assert key.revoked_at is None


def test_a_guest_has_no_keys(guest: User) -> None:
    got = signed_in(guest).get("/accounts/keys/")
    assert (got.status_code, got["Location"]) == (302, "/accounts/signup/")


def test_the_command_prints_a_working_key_as_its_last_line(owner: User) -> None:
    printed = io.StringIO()
    call_command("create_api_key", "owner", stdout=printed)
    key = printed.getvalue().splitlines()[-1]
    assert Client(headers={"Authorization": f"Bearer {key}"}).get("/api/v1/me").json()["username"] == "owner"
    assert not ApiKey.objects.filter(digest__contains=key).exists()
    with pytest.raises(CommandError, match="nobody"):
        call_command("create_api_key", "nobody")
