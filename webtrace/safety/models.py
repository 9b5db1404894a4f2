"""What safety decided about requests and answers, and what a person said about it afterwards."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import F, Q

EXCERPT_CHARACTERS = 200


class SafetyDecision(models.Model):
    """One judgement of an input, or of one window of an answer, as it stood when it was made.

    The text itself stays with its message. Here is a digest of what was judged, and a short excerpt in which personal
    data is blacked out.
    """

    class Direction(models.TextChoices):
        INPUT = "input"
        OUTPUT = "output"

    class Decision(models.TextChoices):
        ALLOW = "allow", "allow"
        CONSTRAIN = "constrain", "allow with constraints"
        REDIRECT = "redirect", "safe redirection"
        REFUSE = "refuse", "refuse"
        REVIEW = "review", "a person must look"

    response = models.ForeignKey("conversations.Response", on_delete=models.CASCADE, related_name="safety_decisions")
    direction = models.CharField(max_length=6, choices=Direction)
    window_from = models.PositiveIntegerField(default=0, help_text="First character judged.")
    window_to = models.PositiveIntegerField(default=0, help_text="One past the last character judged.")
    decision = models.CharField(max_length=9, choices=Decision, db_index=True)
    reason = models.TextField()
    scores = models.JSONField(default=list, help_text="Each label's score and threshold.")
    rules = models.JSONField(default=list, help_text="The rules that matched.")
    technique = models.CharField(max_length=200)
    version = models.CharField(max_length=80)
    text_sha256 = models.CharField(max_length=64, db_index=True)
    excerpt = models.CharField(max_length=EXCERPT_CHARACTERS + 1, blank=True)
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)

    reviewed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    reviewed_at = models.DateTimeField(null=True, blank=True)
    review_note = models.TextField(blank=True)

    class Meta:
        ordering = ("-created_at",)
        constraints = (
            models.CheckConstraint(
                condition=Q(window_to__gte=F("window_from")), name="safety_window_does_not_end_before_it_begins"
            ),
        )

    def __str__(self) -> str:
        return f"{self.direction}: {self.decision}"
