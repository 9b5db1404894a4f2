"""Admin pages of records: they can be read and found, not made or changed."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from webtrace.accounts.models import User


class ReadOnlyAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Staff with the view permission read. Deleting stays possible for those who may: people can ask for it."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


class OwnedAdmin(ReadOnlyAdmin):
    """Records that belong to a user. A list of all users would not fit beside the table: each name is a filter."""

    @admin.display(description="owner", ordering="owner__username")
    def of(self, record: Any) -> SafeString:
        return filter_link("owner__id__exact", record.owner)


class ReadOnlyInline(admin.TabularInline):  # type: ignore[type-arg]
    """Rows of a record inside another one's page."""

    extra = 0
    can_delete = False
    show_change_link = True

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


def filter_link(lookup: str, user: User | None) -> SafeString:
    """A user's name in a list, as a link to the same list with their rows only."""
    if user is None:
        return format_html("–")
    return format_html('<a href="?{}={}">{}</a>', lookup, user.pk, user.get_username())
