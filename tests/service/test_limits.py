"""Limits: of users, guests and their addresses, whatever a client writes into its headers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db.models import F
from django.test import Client

from tests.service.cast import make_user, principal
from tests.service.site import Site, running_site
from tests.service.socket_client import by_cookie, by_key
from webtrace.accounts.models import User
from webtrace.gateway import identity, limits
from webtrace.gateway.address import address_group, client_address
from webtrace.gateway.budgets import DatabaseStorage
from webtrace.gateway.models import BudgetUse


@pytest.fixture(scope="module")
def strict_site() -> Iterator[Site]:
    with running_site(
        WEBTRACE_GUEST_ANSWERS_PER_HOUR="3",
        WEBTRACE_USER_ANSWERS_PER_HOUR="2",
        WEBTRACE_GUEST_MAX_TOKENS="50",
        WEBTRACE_STORED_REFUSALS_PER_HOUR="2",
        WEBTRACE_FAKE_TEXT="ok",
    ) as site:
        yield site


def test_a_user_gets_their_own_answers_and_then_waits(owner: User, settings: Any) -> None:
    settings.USER_ANSWERS_PER_HOUR = 2
    for remaining in (1, 0):
        allowed, left = limits.consume(principal(owner))
        assert (allowed, left.remaining) == (True, remaining)
    allowed, left = limits.consume(principal(owner))
    assert not allowed
    assert 3590 < left.resets_in_s <= 3600
    assert limits.consume(principal(make_user("other")))[0]


def test_a_restart_gives_nobody_a_new_hour(owner: User, settings: Any) -> None:
    settings.USER_ANSWERS_PER_HOUR = 2
    assert limits.consume(principal(owner))[0]
    limits._limiter.cache_clear()  # as a new process begins
    assert limits.allowance(principal(owner)).remaining == 1
    limits.clear(principal(owner))
    assert limits.allowance(principal(owner)).remaining == 2


def test_taking_is_what_counts_not_looking(db: None) -> None:
    storage = DatabaseStorage()
    assert [storage.acquire_entry("k", 2, 3600) for _ in range(3)] == [True, True, False]
    assert storage.get_moving_window("k", 2, 3600)[1] == 2
    assert not storage.acquire_entry("other", 2, 3600, amount=3)


def test_what_left_the_hour_no_longer_counts(owner: User, settings: Any) -> None:
    settings.USER_ANSWERS_PER_HOUR = 1
    assert limits.consume(principal(owner))[0]
    BudgetUse.objects.update(at=F("at") - 3601)
    assert limits.consume(principal(owner))[0]
    assert not limits.consume(principal(owner))[0]
    assert BudgetUse.objects.count() == 1


def test_an_admins_figure_wins(owner: User) -> None:
    owner.answers_per_hour = 1
    assert limits.consume(principal(owner))[0]
    assert not limits.consume(principal(owner))[0]


def test_guests_of_one_address_share_its_budget(db: None, settings: Any) -> None:
    settings.GUEST_ANSWERS_PER_HOUR = 3
    guests = [User.objects.create(username=f"g{number}", is_guest=True) for number in range(4)]
    allowed = [limits.consume(principal(guest, "198.51.100.7"))[0] for guest in guests]
    assert allowed == [True, True, True, False]
    assert limits.consume(principal(guests[3], "198.51.100.8"))[0]


def test_an_empty_budget_takes_nothing_from_the_other(db: None, settings: Any) -> None:
    settings.GUEST_ANSWERS_PER_HOUR = 1
    first, second = (User.objects.create(username=f"g{number}", is_guest=True) for number in range(2))
    assert limits.consume(principal(first, "198.51.100.7"))[0]
    assert not limits.consume(principal(second, "198.51.100.7"))[0]
    assert limits.consume(principal(second, "198.51.100.9"))[0]


def test_one_address_makes_only_so_many_guests(db: None, settings: Any) -> None:
    settings.NEW_GUESTS_PER_HOUR = 2
    sessions = []
    for _ in range(3):
        client = Client()
        client.get("/")
        sessions.append(client.cookies[settings.SESSION_COOKIE_NAME].value)
    for session in (*sessions[:2], sessions[0]):  # one who comes again is not new
        assert identity.guest(session, "198.51.100.7").kind == "guest"
    with pytest.raises(identity.Unauthenticated, match="Too many new guests"):
        identity.guest(sessions[2], "198.51.100.7")
    assert identity.guest(sessions[2], "198.51.100.8").kind == "guest"
    assert User.objects.count() == 3


@pytest.mark.parametrize(
    ("hops", "forwarded", "expected"),
    [
        (0, "1.1.1.1", "203.0.113.5"),
        (1, "1.1.1.1, 2.2.2.2", "2.2.2.2"),
        (2, "1.1.1.1, 2.2.2.2, 3.3.3.3", "2.2.2.2"),
        (2, "3.3.3.3", "203.0.113.5"),
        (1, "nonsense", None),
        (1, None, "203.0.113.5"),
    ],
)
def test_only_trusted_hops_are_believed(settings: Any, hops: int, forwarded: str | None, expected: str | None) -> None:
    settings.TRUSTED_PROXY_HOPS = hops
    assert client_address("203.0.113.5", forwarded) == expected


def test_a_household_is_one_place() -> None:
    assert address_group("2001:db8:1:2:3::4") == address_group("2001:db8:1:2:ffff::1")
    assert address_group("2001:db8:1:2::1") != address_group("2001:db8:1:3::1")
    assert address_group("::ffff:192.0.2.1") == address_group("192.0.2.1")


def test_a_new_forwarded_for_on_each_request_is_no_new_client(strict_site: Site) -> None:
    ends = []
    for number in range(4):
        forged = {"X-Forwarded-For": f"10.0.0.{number}"}
        with by_cookie(strict_site, strict_site.browser(**forged), **forged) as talk:
            talk.create(sampling={"max_tokens": 10})
            ends.append(talk.to_end()[-1])
    assert [end["type"] for end in ends] == ["response.completed"] * 3 + ["response.failed"]
    error = ends[-1]["error"]
    assert error["code"] == "rate_limited"
    assert 0 < error["retry_after"] <= 3600


def test_a_guest_may_ask_for_so_many_tokens(strict_site: Site) -> None:
    with by_cookie(strict_site, strict_site.browser()) as talk:
        talk.create(sampling={"max_tokens": 51})
        error = talk.to_end()[-1]["error"]
    assert (error["code"], error["field"]) == ("too_large", "sampling.max_tokens")
    assert "50" in error["message"]


def test_a_flood_of_refusals_is_counted_not_stored(strict_site: Site) -> None:
    key = strict_site.new_key()
    with by_key(strict_site, key) as talk:
        for _ in range(6):
            talk.create("")
        answers = [talk.until("response.failed", "error")[-1] for _ in range(6)]
    assert [answer["type"] for answer in answers] == ["response.failed"] * 2 + ["error"] * 4
    code = f"""
from webtrace.accounts.models import ApiKey
user = ApiKey.objects.get(digest=ApiKey.digest_of({key!r})).user
result = [user.responses.count(), list(user.rejectedframe_set.values_list("code", "field", "count"))]
"""
    assert strict_site.python(code) == [2, [["invalid_value", "input", 4]]]
