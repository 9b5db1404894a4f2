"""Combinations of settings that start and are still wrong. `manage.py check` and every start of a server say them."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core import checks

LOOPBACK = {"localhost", "127.0.0.1", "[::1]"}


@checks.register()
def settings_fit_together(**_: Any) -> list[checks.CheckMessage]:
    reachable = sorted(set(settings.ALLOWED_HOSTS) - LOOPBACK)
    on_sqlite = settings.DATABASES["default"]["ENGINE"].endswith("sqlite3")
    found: list[checks.CheckMessage] = []
    if settings.REDIS_URL and on_sqlite:
        found.append(
            checks.Warning(
                "REDIS_URL is set and the database is SQLite: several processes would queue for one writer.",
                hint="Set DATABASE_URL to a PostgreSQL database.",
                id="webtrace.W001",
            )
        )
    if reachable and not settings.BEHIND_TLS:
        found.append(
            checks.Warning(
                f"{', '.join(reachable)} answers without TLS: passwords and prompts travel in the clear.",
                hint="Put a proxy that speaks TLS in front and set WEBTRACE_TLS=1.",
                id="webtrace.W002",
            )
        )
    if reachable and settings.DEBUG:
        found.append(
            checks.Warning(
                f"Debug pages, which show settings and source, are served to {', '.join(reachable)}.",
                hint="Unset WEBTRACE_DEBUG.",
                id="webtrace.W003",
            )
        )
    return found
