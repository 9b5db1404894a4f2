"""Admin of workers and of the jobs they hold."""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.contrib import admin
from django.utils import timezone

from webtrace.dispatch.models import Job, Worker
from webtrace.read_only_admin import ReadOnlyAdmin


@admin.register(Worker)
class WorkerAdmin(ReadOnlyAdmin):
    list_display = (
        "name", "alive", "host", "process_id", "model", "kernel", "device", "region", "num_running", "num_waiting",
        "blocks", "seen_at",
    )  # fmt: skip
    list_filter = ("started_at", "seen_at", "stopped_at", "model", "device", "region")
    search_fields = ("id", "host", "process_id", "model", "fingerprint")

    @admin.display(boolean=True)
    def alive(self, worker: Worker) -> bool:
        """Seen within its lease and not stopped."""
        lease = timedelta(seconds=settings.LEASE_S)
        return worker.stopped_at is None and worker.seen_at > timezone.now() - lease

    @admin.display(description="free blocks")
    def blocks(self, worker: Worker) -> str:
        return f"{worker.num_free_blocks} of {worker.num_blocks}"


@admin.register(Job)
class JobAdmin(ReadOnlyAdmin):
    """Only responses that have not ended have a job."""

    list_display = ("response", "worker", "created_at", "taken_at", "watched_at", "held_stage", "cancel_requested")
    list_filter = ("created_at", "worker", "held_stage", "cancel_requested")
    search_fields = ("response__id", "response__owner__username", "worker__id")
    list_select_related = ("response", "worker")
