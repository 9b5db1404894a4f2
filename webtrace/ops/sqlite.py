"""What a new SQLite file is given once: as part of opening a connection it would take the right to write each time."""

from __future__ import annotations

from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.dispatch import receiver


@receiver(connection_created)
def prepare_new_file(connection: BaseDatabaseWrapper, **_: Any) -> None:
    """Both stay with the file. `auto_vacuum` can be chosen only while it is empty, and WAL fills its first page."""
    if connection.vendor != "sqlite":
        return
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA page_count")
        if cursor.fetchone() == (0,):
            cursor.execute("PRAGMA auto_vacuum = INCREMENTAL")
            cursor.execute("PRAGMA journal_mode = WAL")
