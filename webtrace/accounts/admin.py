"""Admin of users, guests and API keys."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString

from webtrace.accounts import services
from webtrace.accounts.models import ApiKey, User
from webtrace.read_only_admin import ReadOnlyAdmin, filter_link


@admin.register(User)
class PersonAdmin(UserAdmin):  # type: ignore[type-arg]
    list_display = ("username", "is_guest", "is_staff", "is_active", "date_joined", "last_login")
    list_filter = ("is_guest", "is_staff", "is_active", "date_joined")
    fieldsets = (
        *(UserAdmin.fieldsets or ()),
        ("Limits", {"fields": ("is_guest", "answers_per_hour", "max_tokens")}),
    )
    readonly_fields = ("is_guest", "last_login", "date_joined")


@admin.register(ApiKey)
class ApiKeyAdmin(ReadOnlyAdmin):
    """Keys are made by their users; here they are looked at and revoked. The secret is nowhere."""

    list_display = ("prefix", "of", "name", "created_at", "last_used_at", "revoked_at")
    list_filter = ("created_at", "last_used_at", "revoked_at")
    search_fields = ("prefix", "name", "user__username")
    list_select_related = ("user",)
    exclude = ("digest",)
    actions = ("revoke",)

    @admin.display(description="user", ordering="user__username")
    def of(self, key: ApiKey) -> SafeString:
        return filter_link("user__id__exact", key.user)

    @admin.action(description="Revoke the selected keys", permissions=["delete"])
    def revoke(self, request: HttpRequest, keys: QuerySet[ApiKey]) -> None:
        for key in keys:
            services.revoke_key(key=key)
        self.message_user(request, "The keys are refused from now on.")

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """A revoked key's row stays, to explain what it did: nothing is deleted in bulk."""
        actions = super().get_actions(request)
        actions.pop("delete_selected", None)
        return actions
