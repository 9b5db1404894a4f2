"""When a login is refused before the password is looked at."""

from __future__ import annotations

from typing import Any

from axes.handlers.database import AxesDatabaseHandler
from django.http import HttpRequest

from webtrace.gateway import address, limits


class LockoutHandler(AxesDatabaseHandler):  # type: ignore[misc]
    """axes counts wrong passwords by name and address; this bounds the address too, whatever names it tries.

    A name that nobody has costs as much to refuse as a wrong password.
    """

    def is_locked(self, request: HttpRequest, credentials: dict[str, Any] | None = None) -> bool:
        """A name that is locked already takes nothing from its address."""
        return super().is_locked(request, credentials) or not limits.may_try_password(address.of_request(request))
