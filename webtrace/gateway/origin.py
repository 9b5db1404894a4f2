"""Where a browser's request comes from. A cookie counts only with an exact Origin: same scheme, host and port."""

from __future__ import annotations

from collections.abc import Mapping

from django.conf import settings
from django.http.request import split_domain_port, validate_host


def is_encrypted(headers: Mapping[str, str], scheme: str | None = None) -> bool:
    """Whether the client's connection was encrypted; a proxy's word counts only where one is configured."""
    if scheme in {"https", "wss"}:
        return True
    return settings.BEHIND_TLS and headers.get("x-forwarded-proto") == "https"


def origin_allowed(headers: Mapping[str, str], *, encrypted: bool) -> bool:
    """Whether the Origin header names the very address that was asked for, or a trusted one.

    The host itself must be one of ours: with a forged name that points here, Origin and Host would agree.
    """
    origin, host = headers.get("origin"), headers.get("host", "")
    if not origin:
        return False
    if origin in settings.CSRF_TRUSTED_ORIGINS:
        return True
    domain, _ = split_domain_port(host)
    if not domain or not validate_host(domain, settings.ALLOWED_HOSTS):
        return False
    return origin == f"{'https' if encrypted else 'http'}://{host}"
