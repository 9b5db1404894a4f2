"""Admin of what the gateway turned away, and of who may ask how much."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from webtrace.gateway import limits
from webtrace.gateway.models import RejectedFrame, UserLimit
from webtrace.gateway.principal import Principal
from webtrace.read_only_admin import OwnedAdmin


@admin.register(RejectedFrame)
class RejectedFrameAdmin(OwnedAdmin):
    list_display = ("created_at", "code", "field", "count", "transport", "of", "address", "num_bytes")
    list_filter = ("created_at", "code", "transport")
    search_fields = ("code", "field", "message", "owner__username", "address")
    list_select_related = ("owner",)
    date_hierarchy = "created_at"


@admin.register(UserLimit)
class UserLimitAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Each user's own figures (empty: the setting's) and where they stand in this hour."""

    list_display = ("username", "is_guest", "answers_per_hour", "max_tokens", "limit_now", "left_now", "resets")
    list_editable = ("answers_per_hour", "max_tokens")
    list_filter = ("is_guest", "date_joined")
    search_fields = ("username",)
    fields = ("username", "is_guest", "answers_per_hour", "max_tokens", "limit_now", "left_now", "resets")
    readonly_fields = ("username", "is_guest", "limit_now", "left_now", "resets")
    list_per_page = 50
    actions = ("forget_used",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    @admin.display(description="answers an hour, now")
    def limit_now(self, user: UserLimit) -> int:
        return _principal(user).answers_per_hour

    @admin.display(description="left in this hour")
    def left_now(self, user: UserLimit) -> int:
        return limits.allowance(_principal(user)).remaining

    @admin.display(description="next one free in")
    def resets(self, user: UserLimit) -> str:
        seconds = limits.allowance(_principal(user)).resets_in_s
        return f"{seconds / 60:.0f} min" if seconds else "–"

    @admin.action(description="Give the selected users a fresh hour", permissions=["change"])
    def forget_used(self, request: HttpRequest, users: QuerySet[UserLimit]) -> None:
        for user in users:
            limits.clear(_principal(user))
        self.message_user(request, "Their hour starts anew.")


def _principal(user: UserLimit) -> Principal:
    """The user's own budget; that of a guest's address is not looked at here."""
    return Principal(user, "user" if not user.is_guest else "guest", None)
