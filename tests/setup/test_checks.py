"""What `manage.py check` says about settings that do not fit together."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from django.core.checks import run_checks

SOUND = {
    "ALLOWED_HOSTS": ["localhost", "127.0.0.1"],
    "BEHIND_TLS": False,
    "DATABASES": {"default": {"ENGINE": "django.db.backends.sqlite3"}},
    "DEBUG": False,
    "REDIS_URL": "",
}
POSTGRES = {"default": {"ENGINE": "django.db.backends.postgresql"}}
PUBLIC = ["localhost", "chat.example.org"]


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({}, set()),
        ({"REDIS_URL": "redis://here"}, {"webtrace.W001"}),
        ({"REDIS_URL": "redis://here", "DATABASES": POSTGRES}, set()),
        ({"ALLOWED_HOSTS": PUBLIC, "BEHIND_TLS": True}, set()),
        ({"ALLOWED_HOSTS": PUBLIC}, {"webtrace.W002"}),
        ({"ALLOWED_HOSTS": PUBLIC, "DEBUG": True}, {"webtrace.W002", "webtrace.W003"}),
    ],
)
def test_settings_that_do_not_fit_are_named(
    changed: dict[str, Any], found: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webtrace.ops.checks.settings", SimpleNamespace(**SOUND | changed))
    assert {message.id for message in run_checks() if str(message.id).startswith("webtrace.")} == found
