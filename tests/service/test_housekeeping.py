"""What a web process does beside serving: rows nobody needs go, and a key's last use is written when it can be."""

from __future__ import annotations

import datetime
import time
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.db import connection, transaction
from django.test import Client
from django.utils import timezone

from tests.service.cast import make_response, make_user, principal
from webtrace.accounts import guests, key_use
from webtrace.accounts.models import ApiKey, User
from webtrace.api import housekeeping
from webtrace.conversations.models import Conversation, EventBatch, Response
from webtrace.gateway import budgets, limits
from webtrace.gateway.models import Budget, BudgetUse


def days_ago(days: int) -> datetime.datetime:
    return timezone.now() - datetime.timedelta(days=days)


def make_guest(name: str, *, came: int, asked: int | None = None, **fields: Any) -> User:
    """Who came so many days ago and asked something so many days ago."""
    user = make_user(name, is_guest=True, **fields)
    User.objects.filter(pk=user.pk).update(date_joined=days_ago(came))
    if asked is not None:
        response = make_response(user)
        Response.objects.filter(pk=response.pk).update(created_at=days_ago(asked))
        Conversation.objects.filter(responses=response).update(updated_at=days_ago(asked))
    return user


def test_guests_who_do_not_come_back_go_with_everything(db: None, settings: Any) -> None:
    settings.GUEST_DAYS = 30
    make_guest("gone", came=40, asked=35)
    make_guest("never asked", came=40)
    make_guest("asked lately", came=40, asked=3)
    make_guest("new", came=1)
    renamed = make_guest("renamed lately", came=40, asked=40)
    Conversation.objects.filter(owner=renamed).update(updated_at=days_ago(3))
    refused = make_guest("refused lately", came=40, asked=40)
    Response.objects.filter(owner=refused).update(conversation=None, created_at=days_ago(3))
    signed_up = make_guest("signed up", came=400, asked=400)
    User.objects.filter(pk=signed_up.pk).update(is_guest=False)
    assert guests.remove_stale(limit=1) == 1
    assert guests.remove_stale(limit=10) == 1
    assert guests.remove_stale(limit=10) == 0
    kept = {"asked lately", "renamed lately", "refused lately", "signed up"}
    assert set(User.objects.values_list("username", flat=True)) == {*kept, "new"}
    for model in (Conversation, Response):
        assert set(model.objects.values_list("owner__username", flat=True)) == kept
    assert set(EventBatch.objects.values_list("response__owner__username", flat=True)) == kept


def test_with_no_days_set_guests_stay(db: None, settings: Any) -> None:
    settings.GUEST_DAYS = 0
    make_guest("gone", came=4000)
    assert guests.remove_stale(limit=10) == 0


def test_sessions_and_limits_that_have_run_out_go(owner: User) -> None:
    for number, days in enumerate((1, -1)):
        Session.objects.create(session_key=f"s{number}", session_data="", expire_date=days_ago(days))
    limits.consume(principal(owner))
    old = Budget.objects.create(pk="old")
    BudgetUse.objects.create(budget=old, at=time.time() - 2 * budgets.KEPT_S)
    assert housekeeping.tidy()
    assert list(Session.objects.values_list("session_key", flat=True)) == ["s1"]
    assert [use.budget_id for use in BudgetUse.objects.all()] == list(Budget.objects.values_list("pk", flat=True))
    assert "old" not in Budget.objects.values_list("pk", flat=True)
    assert limits.allowance(principal(owner)).remaining == limits.allowance(principal(owner)).limit - 1


@pytest.fixture
def unused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_use, "_noted", {})


def test_a_keys_use_is_written_afterwards(owner: User, unused: None) -> None:
    key, secret = ApiKey.make(user=owner)
    client = Client(headers={"Authorization": f"Bearer {secret}"})
    with connection.execute_wrapper(_only_reads):
        assert client.get("/api/v1/me").status_code == 200
        with pytest.raises(AssertionError), transaction.atomic():
            key_use.write()  # and is kept for the next time
    key_use.write()
    key.refresh_from_db()
    first = key.last_used_at
    assert first is not None
    assert timezone.now() - first < datetime.timedelta(minutes=1)
    client.get("/api/v1/me")
    key_use.write()
    key.refresh_from_db()
    assert key.last_used_at == first, "not every use costs a write"


def _only_reads(execute: Any, sql: str, *arguments: Any) -> Any:
    assert sql.startswith("SELECT"), sql
    return execute(sql, *arguments)
