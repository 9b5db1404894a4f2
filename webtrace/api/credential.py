"""What a connection proves its user with: looked up anew each time, because keys and sessions end."""

from __future__ import annotations

from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie

from django.conf import settings

from webtrace.api.database import in_database
from webtrace.gateway import identity
from webtrace.gateway.identity import Unauthenticated
from webtrace.gateway.principal import Principal


class Credential:
    """An API key or a session cookie, from the headers of the handshake. Whoever it belongs to stays the same."""

    def __init__(self, headers: Mapping[str, str], address: str | None) -> None:
        self._address = address
        self._authorization = headers.get("authorization")
        self._session_key = _session_key(headers.get("cookie", ""))
        self.principal: Principal | None = None  # null: a visitor, who becomes a guest with the first request

    @property
    def is_session(self) -> bool:
        """Whether a browser sends it by itself, so that its Origin matters."""
        return self._authorization is None

    async def check(self) -> None:
        """Look whether it is still good. Raises Unauthenticated."""
        if self._authorization is not None:
            self._keep(await in_database(identity.by_key, self._authorization, self._address))
        elif (principal := await in_database(identity.by_session, self._session_key, self._address)) is not None:
            self._keep(principal)
        elif self.principal is not None:
            raise Unauthenticated("This session has ended; sign in again.")

    async def certain(self) -> Principal:
        """Who is asking right now; a visitor becomes a guest. Raises Unauthenticated."""
        await self.check()
        return self.principal or self._keep(await in_database(identity.guest, self._session_key, self._address))

    def shares_place(self, other: Credential) -> bool:
        """Whether both count against the same bound: of one user, or of one address while there is no user."""
        if self.principal is None or other.principal is None:
            return self.principal is other.principal and self._address == other._address
        return self.principal.user.pk == other.principal.user.pk

    def _keep(self, principal: Principal) -> Principal:
        if self.principal is not None and self.principal.user.pk != principal.user.pk:
            raise Unauthenticated("This session now belongs to somebody else; connect again.")
        self.principal = principal
        return principal


def _session_key(header: str) -> str | None:
    try:
        cookie = SimpleCookie(header).get(settings.SESSION_COOKIE_NAME)
    except CookieError:
        return None
    return cookie.value if cookie else None
