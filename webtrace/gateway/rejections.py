"""Rows for what never became a response: unreadable frames, and refusals past the cap."""

from __future__ import annotations

from datetime import timedelta

from django.db.models import F
from django.utils import timezone

from webtrace.accounts.models import User
from webtrace.gateway.models import RejectedFrame

SAME_ROW_FOR = timedelta(hours=1)


def record(
    *,
    code: str,
    message: str,
    transport: str,
    field: str | None = None,
    owner: User | None = None,
    address: str | None = None,
    num_bytes: int = 0,
) -> None:
    """Count a rejection: the same one again within the hour adds to the row that is there. Uses the database."""
    same = RejectedFrame.objects.filter(
        owner=owner,
        address=address,
        code=code,
        field=(field or "")[:100],
        transport=transport,
        created_at__gt=timezone.now() - SAME_ROW_FOR,
    ).order_by("-created_at")
    if (row := same.values_list("pk", flat=True).first()) is not None:
        RejectedFrame.objects.filter(pk=row).update(count=F("count") + 1)
        return
    RejectedFrame.objects.create(
        owner=owner,
        address=address,
        transport=transport,
        code=code,
        field=(field or "")[:100],
        message=message[:2000].replace("\x00", "\\0"),
        num_bytes=num_bytes,
    )
