"""Who computes what: the workers that are alive, and the jobs waiting for or held by them."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from webtrace.conversations.models import Response


class Worker(models.Model):
    """A worker process with its engine. `seen_at` is its lease: silent for LEASE_S, it is lost."""

    id = models.CharField(primary_key=True, max_length=64)
    host = models.CharField(max_length=255, help_text="Name of its machine: for the operator alone.")
    process_id = models.PositiveIntegerField()
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

    @property
    def name(self) -> str:
        """What everybody may call it. Where it runs stands in none of it."""
        return f"worker {self.pk[:6]}"


class Job(models.Model):
    """One response to be computed. Taking, cancelling and losing are changes of this row; channels only ring.

    The row lives as long as its response is active: whoever writes the end deletes it in the same transaction.
    """

    response = models.OneToOneField(Response, on_delete=models.CASCADE, related_name="job", primary_key=True)
    worker = models.ForeignKey(Worker, on_delete=models.SET_NULL, null=True, blank=True, related_name="jobs")
    asked_from = models.CharField(max_length=45, help_text="The address group of whoever asked, as limits count it.")
    position = models.PositiveIntegerField(default=0, help_text="Jobs before it, as its watchers were last told.")
    cancel_requested = models.CharField(max_length=12, blank=True, help_text="Finish reason asked for.")
    held_stage = models.CharField(max_length=20, blank=True, help_text="Where it is held at a breakpoint.")
    held_step = models.PositiveIntegerField(null=True, blank=True)
    held_at = models.DateTimeField(null=True, blank=True)
    breakpoints = models.JSONField(null=True, blank=True, help_text="Those that took the place of the request's own.")
    continue_until = models.JSONField(null=True, blank=True, help_text="Where to hold next, once asked to go on.")
    watched_at = models.DateTimeField(db_default=Now(), help_text="When somebody was last seen watching.")
    created_at = models.DateTimeField(db_default=Now(), db_index=True)
    taken_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("created_at",)

    def __str__(self) -> str:
        return str(self.response_id)
