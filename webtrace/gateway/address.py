"""The client's network address. Only a configured number of proxies is believed, never the first entry."""

from __future__ import annotations

import ipaddress

from django.conf import settings
from django.http import HttpRequest


def client_address(peer: str | None, forwarded_for: str | None) -> str | None:
    """The address `settings.TRUSTED_PROXY_HOPS` entries from the right of X-Forwarded-For, else the peer's.

    Each trusted proxy appends the address it saw, so everything further left was written by the client.
    """
    hops = settings.TRUSTED_PROXY_HOPS
    if hops and forwarded_for:
        entries = [entry.strip() for entry in forwarded_for.split(",")]
        if len(entries) >= hops:
            return _valid(entries[-hops])
    return _valid(peer)


def of_request(request: HttpRequest) -> str | None:
    return client_address(request.META.get("REMOTE_ADDR"), request.META.get("HTTP_X_FORWARDED_FOR"))


def address_group(address: str | None) -> str:
    """What counts as one place for limits: an IPv4 address, or the /64 network a household gets in IPv6."""
    if address is None:
        return "unknown"
    parsed = ipaddress.ip_address(address)
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return address


def _valid(address: str | None) -> str | None:
    try:
        return str(ipaddress.ip_address(address or ""))
    except ValueError:
        return None
