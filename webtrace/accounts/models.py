"""Who uses the service: users, guests, and the keys their programs use."""

from __future__ import annotations

import hashlib
import secrets

from django.contrib.auth.models import AbstractUser
from django.db import models


class User(AbstractUser):
    """A person. A guest is a user without a password, bound to a browser session until they sign up."""

    is_guest = models.BooleanField(default=False, db_index=True)
    answers_per_hour = models.PositiveIntegerField(null=True, blank=True, help_text="Empty: the usual limit.")
    max_tokens = models.PositiveIntegerField(null=True, blank=True, help_text="Of one answer. Empty: the usual limit.")


class ApiKey(models.Model):
    """A program's credential. Only its SHA-256 is stored: the key itself is shown once, when it is made."""

    PREFIX = "wt_"

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="api_keys")
    name = models.CharField(max_length=100, blank=True)
    prefix = models.CharField(max_length=12, help_text="The first characters, to tell keys apart.")
    digest = models.CharField(max_length=64, unique=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-created_at",)

    def __str__(self) -> str:
        return f"{self.prefix}… of {self.user}"

    @classmethod
    def digest_of(cls, key: str) -> str:
        # A plain hash is enough: a key is 256 random bits, not a password somebody chose.
        return hashlib.sha256(key.encode()).hexdigest()

    @classmethod
    def make(cls, *, user: User, name: str = "") -> tuple[ApiKey, str]:
        """A stored key and the secret itself, which cannot be had again."""
        key = cls.PREFIX + secrets.token_urlsafe(32)
        return cls.objects.create(user=user, name=name, prefix=key[:9], digest=cls.digest_of(key)), key
