"""What the gateway keeps: what it turned away before it could become a response, and who used how much."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from webtrace.accounts.models import User


class RejectedFrame(models.Model):
    """A frame or request that could not be read as a message, or a refusal past the cap (`count` of them)."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, blank=True)
    address = models.GenericIPAddressField(null=True, blank=True)
    transport = models.CharField(max_length=10)
    code = models.CharField(max_length=40)
    field = models.CharField(max_length=100, blank=True)
    message = models.TextField()
    num_bytes = models.PositiveIntegerField(default=0)
    count = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)

    class Meta:
        ordering = ("-created_at",)

    def __str__(self) -> str:
        return f"{self.code} ×{self.count}"


class Budget(models.Model):
    """Something that is limited, named by whoever counts. Its row is the lock of its uses."""

    key = models.CharField(primary_key=True, max_length=200)

    def __str__(self) -> str:
        return self.key


class BudgetUse(models.Model):
    """One use of a budget, `at` seconds of the epoch by the web process's clock."""

    budget = models.ForeignKey(Budget, on_delete=models.CASCADE, related_name="uses")
    at = models.FloatField()

    class Meta:
        indexes = (models.Index(fields=("budget", "at")),)

    def __str__(self) -> str:
        return f"{self.budget_id} {self.at}"


class UserLimit(User):
    """A user, seen as what they may ask for: the limits' own page in the admin."""

    class Meta:
        proxy = True
        verbose_name = "limit"
        ordering = ("-date_joined",)
