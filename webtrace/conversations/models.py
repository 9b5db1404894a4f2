"""Conversations, their messages, the responses that made the answers, and each response's event log."""

from __future__ import annotations

import secrets
import uuid

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

SHARE_TOKEN_BYTES = 16  # 128 random bits: nobody guesses one


def new_share_token() -> str:
    return secrets.token_urlsafe(SHARE_TOKEN_BYTES)


class Conversation(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="conversations")
    title = models.CharField(max_length=200, blank=True)
    instructions = models.TextField(blank=True)
    sampling = models.JSONField(default=dict, help_text="As the newest request asked for it; empty before the first.")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ("-updated_at",)
        indexes = (models.Index(fields=("owner", "-updated_at")),)

    def __str__(self) -> str:
        return self.title or str(self.id)


class Message(models.Model):
    """One turn. Messages form a tree: versions of a turn share their parent."""

    class Role(models.TextChoices):
        SYSTEM = "system"
        DEVELOPER = "developer"
        USER = "user"
        ASSISTANT = "assistant"
        TOOL = "tool"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="messages")
    parent = models.ForeignKey("self", on_delete=models.CASCADE, null=True, blank=True, related_name="children")
    role = models.CharField(max_length=10, choices=Role)
    content = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("created_at",)
        indexes = (models.Index(fields=("conversation", "created_at")),)

    def __str__(self) -> str:
        return f"{self.role}: {self.content[:40]}"


class Response(models.Model):
    """One answer being generated, from the request's arrival to its end. The record an admin reads."""

    class Status(models.TextChoices):
        QUEUED = "queued"
        IN_PROGRESS = "in_progress"
        COMPLETED = "completed"
        INCOMPLETE = "incomplete"
        CANCELLED = "cancelled"
        FAILED = "failed"
        INTERRUPTED = "interrupted"

    ACTIVE = (Status.QUEUED, Status.IN_PROGRESS)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="responses", null=True, blank=True
    )
    conversation = models.ForeignKey(
        Conversation, on_delete=models.CASCADE, related_name="responses", null=True, blank=True
    )
    user_message = models.ForeignKey(Message, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    answer = models.OneToOneField(Message, on_delete=models.SET_NULL, null=True, blank=True, related_name="response")

    # What was asked. `body` is the client's request as received, for idempotence and stage 1.
    event_id = models.CharField(max_length=100)
    body_digest = models.CharField(max_length=64)
    transport = models.CharField(max_length=10)
    requested_model = models.CharField(max_length=200)
    sampling = models.JSONField(default=dict)
    request = models.JSONField(default=dict, help_text="Input, instructions and options, for the worker.")
    trace = models.BooleanField(default=True)

    # What became of it.
    status = models.CharField(max_length=12, choices=Status, default=Status.QUEUED, db_index=True)
    finish_reason = models.CharField(max_length=20, blank=True)
    error_code = models.CharField(max_length=40, blank=True)
    error_message = models.TextField(blank=True)
    refused_at_stage = models.CharField(max_length=20, blank=True)
    epoch = models.PositiveIntegerField(default=0, help_text="Attempt: only its taker's writes count.")
    text = models.TextField(blank=True, help_text="What safety has released, so far or for good.")
    model = models.CharField(max_length=200, blank=True)
    fingerprint = models.CharField(max_length=200, blank=True)
    worker_id = models.CharField(max_length=64, blank=True)
    token_ids = models.JSONField(default=list, help_text="Prompt and answer, to rebuild a trace.")
    num_prompt_tokens = models.PositiveIntegerField(default=0)
    num_answer_tokens = models.PositiveIntegerField(default=0)
    num_prefix_tokens = models.PositiveIntegerField(default=0)
    decoded_prefix = models.JSONField(
        default=list, help_text="Prompt positions [from, to) whose K and V an earlier answer had written."
    )
    resources = models.JSONField(default=dict, help_text="Prefill and decode time, time held, blocks, bytes.")

    # Times, all by the database's clock, and latencies in milliseconds.
    created_at = models.DateTimeField(db_default=Now(), db_index=True)
    taken_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    queue_ms = models.FloatField(null=True, blank=True)
    time_to_first_token_ms = models.FloatField(null=True, blank=True)
    end_to_end_ms = models.FloatField(null=True, blank=True)

    class Meta:
        ordering = ("-created_at",)
        indexes = (models.Index(fields=("owner", "event_id", "created_at")),)

    def __str__(self) -> str:
        return str(self.id)

    @property
    def numbers_fingerprint(self) -> str:
        """What this response's numbers depend on: the engine, and where its prompt reused an earlier answer's rows,
        whose last bits differ from those of a prompt read anew."""
        spans = ",".join(f"{start}-{end}" for start, end in self.decoded_prefix)
        return f"{self.fingerprint}/decoded-prefix-{spans}" if spans else self.fingerprint


class EventBatch(models.Model):
    """A run of consecutive events of one epoch, as zlib-compressed JSON lines. Joined into few at the end."""

    response = models.ForeignKey(Response, on_delete=models.CASCADE, related_name="batches")
    epoch = models.PositiveIntegerField()
    first = models.PositiveIntegerField()
    last = models.PositiveIntegerField()
    payload = models.BinaryField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("response", "epoch", "first")
        constraints = (
            models.UniqueConstraint(fields=("response", "epoch", "first"), name="one_batch_starts_at_a_number"),
            models.CheckConstraint(condition=Q(last__gte=F("first")), name="batch_is_not_empty"),
        )

    def __str__(self) -> str:
        return f"{self.response_id} {self.epoch}:{self.first}-{self.last}"


class Share(models.Model):
    """A link to one response's trace: whoever has it may read, until its owner takes it back.

    The secret is kept as it is, so that the owner can be shown the link again; it opens nothing that is not beside it.
    """

    response = models.OneToOneField(Response, on_delete=models.CASCADE, related_name="share", primary_key=True)
    token = models.CharField(max_length=64, unique=True, default=new_share_token, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"a link to {self.response_id}"


class Feedback(models.Model):
    class Rating(models.IntegerChoices):
        GOOD = 1
        BAD = -1

    response = models.OneToOneField(Response, on_delete=models.CASCADE, related_name="feedback")
    rating = models.SmallIntegerField(choices=Rating)
    comment = models.TextField(blank=True, max_length=2000)
    updated_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return f"{self.rating:+d} {self.response_id}"
