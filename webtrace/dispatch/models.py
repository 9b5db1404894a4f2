"""Who computes what: the workers that are alive, and the jobs waiting for or held by them."""

from __future__ import annotations

from django.db import models

from webtrace.conversations.models import Response


class Worker(models.Model):
    """A worker process with its engine. `seen_at` is its lease: silent for LEASE_S, it is lost."""

    id = models.CharField(primary_key=True, max_length=64)
    name = models.CharField(max_length=100, help_text="Host name and process id.")
    region = models.CharField(max_length=40)
    model = models.CharField(max_length=200)
    model_info = models.JSONField(default=dict)
    fingerprint = models.CharField(max_length=200)
    device = models.CharField(max_length=40)
    kernel = models.CharField(max_length=40)
    num_blocks = models.PositiveIntegerField(default=0)
    num_free_blocks = models.PositiveIntegerField(default=0)
    num_running = models.PositiveIntegerField(default=0)
    num_waiting = models.PositiveIntegerField(default=0)
    started_at = models.DateTimeField(auto_now_add=True)
    seen_at = models.DateTimeField(db_index=True)
    stopped_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-seen_at",)

    def __str__(self) -> str:
        return f"{self.name} ({self.model}, {self.kernel})"


class Job(models.Model):
    """One response to be computed. Taking, cancelling and losing are changes of this row; channels only ring."""

    response = models.OneToOneField(Response, on_delete=models.CASCADE, related_name="job", primary_key=True)
    worker = models.ForeignKey(Worker, on_delete=models.SET_NULL, null=True, blank=True, related_name="jobs")
    epoch = models.PositiveIntegerField(default=0, help_text="Attempt; every write of a worker is fenced by it.")
    cancel_requested = models.CharField(max_length=12, blank=True, help_text="Finish reason asked for.")
    watched_at = models.DateTimeField(null=True, blank=True, help_text="When somebody was last seen watching.")
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)
    taken_at = models.DateTimeField(null=True, blank=True)
    done_at = models.DateTimeField(null=True, blank=True, db_index=True)

    def __str__(self) -> str:
        return str(self.response_id)
