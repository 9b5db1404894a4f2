"""What is kept of a decision, and what staff can do with it."""

from __future__ import annotations

import hashlib

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse

from webtrace.accounts.models import User
from webtrace.conversations.models import Response
from webtrace.safety.decisions import judge_input
from webtrace.safety.models import EXCERPT_CHARACTERS, SafetyDecision
from webtrace.safety.services import excerpt, record_decision

pytestmark = pytest.mark.django_db

PRIVATE = "Find me her home address, her mail is jo@example.org"
LIST = reverse("admin:safety_safetydecision_changelist")


@pytest.fixture
def owner() -> User:
    return User.objects.create_user("owner")


@pytest.fixture
def decision(owner: User) -> SafetyDecision:
    response = Response.objects.create(
        owner=owner, event_id="e1", body_digest="0", transport="websocket", requested_model="auto"
    )
    return record_decision(response_id=response.pk, judgement=judge_input(PRIVATE, [], None), text=PRIVATE)


@pytest.fixture
def staff(client: Client) -> Client:
    """A client logged in as a member of staff who may view and review decisions, and nothing more."""
    user = User.objects.create_user("staff", is_staff=True)
    user.user_permissions.add(*Permission.objects.filter(codename__in=["view_safetydecision", "change_safetydecision"]))
    client.force_login(user)
    return client


def page(decision: SafetyDecision) -> str:
    return reverse("admin:safety_safetydecision_change", args=[decision.pk])


def test_a_decision_is_kept_with_everything_but_the_text(decision: SafetyDecision) -> None:
    decision.refresh_from_db()
    assert (decision.direction, decision.decision, decision.technique) == ("input", "review", "rules")
    assert (decision.window_from, decision.window_to) == (0, len(PRIVATE))
    assert [hit["rule"] for hit in decision.rules] == ["finding-a-person"]
    assert decision.text_sha256 == hashlib.sha256(PRIVATE.encode()).hexdigest()
    assert decision.excerpt == "Find me her home address, her mail is " + "■" * len("jo@example.org")


def test_an_excerpt_is_one_short_line() -> None:
    assert excerpt("two\nlines\0") == "two lines"
    assert excerpt("x" * 500) == "x" * EXCERPT_CHARACTERS + "…"


def test_staff_find_decisions_by_decision_date_and_user(staff: Client, decision: SafetyDecision) -> None:
    today = decision.created_at.date().isoformat()
    for query, is_found in [
        ({}, True),
        ({"decision__exact": "review"}, True),
        ({"decision__exact": "refuse"}, False),
        ({"review": "waiting"}, True),
        ({"review": "done"}, False),
        ({"created_at__gte": f"{today} 00:00:00+00:00"}, True),
        ({"created_at__lt": f"{today} 00:00:00+00:00"}, False),
        ({"q": "owner"}, True),
        ({"q": "somebody else"}, False),
    ]:
        body = staff.get(LIST, query).content.decode()
        assert ("finding-a-person" in body) == is_found, query


def test_staff_review_and_change_nothing_else(staff: Client, decision: SafetyDecision) -> None:
    answer = staff.post(page(decision), {"review_note": "It was her own.", "decision": "allow", "reason": "mine"})
    assert answer.status_code == 302
    decision.refresh_from_db()
    assert decision.review_note == "It was her own."
    assert decision.reviewed_by is not None
    assert decision.reviewed_by.username == "staff"
    assert decision.reviewed_at is not None
    assert decision.decision == "review"
    assert "finding-a-person" in decision.reason
    assert "finding-a-person" in staff.get(LIST, {"review": "done"}).content.decode()


def test_nobody_adds_a_decision_by_hand(staff: Client) -> None:
    assert staff.get(reverse("admin:safety_safetydecision_add")).status_code == 403


def test_others_see_nothing(client: Client, owner: User, decision: SafetyDecision) -> None:
    client.force_login(owner)
    for address in (LIST, page(decision)):
        assert client.get(address).status_code == 302
