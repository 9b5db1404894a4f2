"""Views, events and exports have a budget of their own: wide for a person, closed to a flood."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from tests.service.cast import make_response, path, signed_in, with_key
from tests.service.test_api_views import FakeWorkers, make_worker, response, workers
from webtrace.accounts.models import User
from webtrace.conversations.models import Response
from webtrace.gateway import readings

__all__ = ["make_worker", "response", "workers"]  # fixtures


@pytest.fixture(autouse=True)
def fresh_minute() -> Iterator[None]:
    readings.limiter.cache_clear()
    yield
    readings.limiter.cache_clear()


def shared(answer: Response) -> str:
    assert answer.owner is not None
    return str(signed_in(answer.owner).put(path(answer, "/share")).json()["path"]).replace("/s/", "/api/v1/shared/")


def test_a_person_who_clicks_and_scrubs_meets_no_limit(
    response: Response, owner: User, workers: FakeWorkers, settings: Any
) -> None:
    """Three pictures that follow a drag over forty steps, forth and back, and then every head of a layer."""
    settings.LEASE_S = 600  # the worker renews nothing here
    client = signed_in(owner)
    for step in [*range(40), *reversed(range(40))]:
        for slug in ("softmax", "scores", "probabilities"):
            assert client.get(path(response, f"/views/{slug}"), {"step": step}).status_code == 200
    for head in range(9):
        assert client.get(path(response, "/views/softmax"), {"layer": 3, "head": head}).status_code == 200
    assert settings.READINGS_PER_MINUTE >= 4 * (3 * 80 + 9), "and that four times a minute"


@pytest.mark.parametrize("address", ["/views/softmax", "/events", "/export"])
def test_a_flood_is_told_the_limit_and_when_to_come_back(
    response: Response, owner: User, stranger: User, workers: FakeWorkers, settings: Any, address: str
) -> None:
    settings.READINGS_PER_MINUTE = 3
    clients = [signed_in(owner), with_key(owner), signed_in(owner)]  # however they prove who they are
    assert [client.get(path(response, address)).status_code for client in clients] == [200] * 3
    refused = clients[0].get(path(response, address))
    error = refused.json()["error"]
    assert (refused.status_code, error["code"]) == (429, "rate_limited")
    assert "limit of 3 readings" in error["message"]
    assert 0 < error["retry_after"] <= 60
    assert 1 <= int(refused["Retry-After"]) <= 60
    assert clients[0].get(path(response)).status_code == 200, "the record is no reading"
    own = make_response(stranger)
    assert signed_in(stranger).get(path(own, "/events")).status_code == 200, "a budget of their own"


def test_a_link_has_its_budget_at_each_address(
    response: Response, owner: User, workers: FakeWorkers, settings: Any
) -> None:
    settings.READINGS_PER_MINUTE = 2
    link, other = shared(response), shared(make_response(owner))

    def read(address: str, place: str) -> int:
        return Client(REMOTE_ADDR=place).get(address).status_code

    assert [read(f"{link}{rest}", "192.0.2.7") for rest in ("", "/events", "/views/softmax")] == [200, 200, 429]
    assert signed_in(owner).get(f"{link}/events", REMOTE_ADDR="192.0.2.7").status_code == 429
    assert read(link, "192.0.2.8") == 200
    assert [read(other, "192.0.2.7") for _ in range(3)] == [200, 200, 429]
    third = shared(make_response(owner))
    assert [read(third, "192.0.2.7") for _ in range(2)] == [200, 429], "of eight for one address, seven were spent"


def test_new_guests_of_an_address_are_no_new_budgets(guest: User, settings: Any) -> None:
    settings.READINGS_PER_MINUTE = 1
    statuses = []
    for number in range(5):
        another = User.objects.create(username=f"guest-x{number}", is_guest=True)
        statuses.append(signed_in(another).get(path(make_response(another), "/events")).status_code)
    assert statuses == [200, 200, 200, 200, 429]
