"""Fixtures of the service tests: the cast in this process, and a live `serve` with the fake engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.core.cache import cache

from tests.service.cast import make_user
from tests.service.site import Site, running_site
from webtrace.accounts.models import User


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    """One for the whole run. Tests make their own users and leave each other alone."""
    with running_site() as running:
        yield running


@pytest.fixture(scope="session")
def key(site: Site) -> str:
    """The key of one user of the live site. A test that needs to be somebody else makes a new one."""
    return site.new_key()


@pytest.fixture(autouse=True)
def fresh_cache() -> None:
    """It lives in this process's memory, longer than a test's database."""
    cache.clear()


@pytest.fixture
def owner(db: None) -> User:
    return make_user("owner")


@pytest.fixture
def stranger(db: None) -> User:
    return make_user("stranger")


@pytest.fixture
def staff(db: None) -> User:
    return make_user("staff", is_staff=True, is_superuser=True)


@pytest.fixture
def guest(db: None) -> User:
    user = User(username="guest-1", is_guest=True)
    user.set_unusable_password()
    user.save()
    return user
