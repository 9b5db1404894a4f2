"""When keys were last used: noted in memory by whoever checks a key, written by the web process's housekeeping.

A request that only reads must never wait for the right to write.
"""

from __future__ import annotations

import datetime

from django.db.models import Q
from django.utils import timezone

from webtrace.accounts.models import ApiKey

PRECISION = datetime.timedelta(minutes=1)  # a row is written no oftener
MOST_NOTED = 10_000  # while a database takes no writes

_noted: dict[int, datetime.datetime] = {}  # key's id → its last use since the last writing


def note(key: ApiKey) -> None:
    """This key was used just now."""
    now = timezone.now()
    if (key.last_used_at is None or now - key.last_used_at > PRECISION) and len(_noted) < MOST_NOTED:
        _noted[key.pk] = now


def write() -> None:
    """Write what was noted. What cannot be written is kept for the next time."""
    for key_id, used_at in tuple(_noted.items()):
        earlier = Q(last_used_at=None) | Q(last_used_at__lt=used_at)
        ApiKey.objects.filter(earlier, pk=key_id).update(last_used_at=used_at)
        if _noted.get(key_id) == used_at:
            _noted.pop(key_id, None)
