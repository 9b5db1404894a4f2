"""The services the tests bring along: real ones, apart from each other and from whatever runs here already."""

from __future__ import annotations

import psycopg
import pytest
import redis

from tests.services import Services

pytestmark = pytest.mark.services


def test_redis_is_fresh_and_ours(services: Services) -> None:
    with redis.Redis.from_url(services.redis_url) as client:
        assert client.ping()
        assert client.config_get("save")["save"] == ""


def test_every_database_is_a_new_one(services: Services) -> None:
    first, second = services.new_database_url(), services.new_database_url()
    with psycopg.connect(first) as connection:
        connection.execute("CREATE TABLE only_here (id int)")
    with psycopg.connect(second) as connection:
        tables = connection.execute("SELECT count(*) FROM pg_tables WHERE tablename = 'only_here'").fetchone()
    assert tables == (0,)
