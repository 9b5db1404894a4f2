"""Admin of safety decisions: a record, to which a reviewer may add a note."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.safestring import SafeString

from webtrace.read_only_admin import filter_link
from webtrace.safety.models import SafetyDecision

BY_OWNER = "response__owner__id__exact"


class ReviewFilter(admin.SimpleListFilter):
    title = "review"
    parameter_name = "review"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("waiting", "waiting for a person"), ("done", "reviewed")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[SafetyDecision]) -> QuerySet[SafetyDecision]:
        if self.value() == "waiting":
            return queryset.filter(decision=SafetyDecision.Decision.REVIEW, reviewed_at=None)
        if self.value() == "done":
            return queryset.exclude(reviewed_at=None)
        return queryset


@admin.register(SafetyDecision)
class SafetyDecisionAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Only the review can be written; who reviewed, and when, is filled in by saving it."""

    list_display = ("created_at", "direction", "decision", "user", "reason", "excerpt", "version", "reviewed_at")
    list_filter = ("decision", "direction", ReviewFilter, "created_at", "response__owner__is_guest", "version")
    search_fields = ("response__id", "response__owner__username", "excerpt", "reason", "rules", "text_sha256")
    list_select_related = ("response__owner",)
    date_hierarchy = "created_at"
    fieldsets = (
        (None, {"fields": ("created_at", "response", "user", "direction", "decision", "reason")}),
        ("Judged", {"fields": ("window_from", "window_to", "excerpt", "text_sha256")}),
        ("How", {"fields": ("technique", "version", "scores", "rules")}),
        ("Review", {"fields": ("review_note", "reviewed_by", "reviewed_at")}),
    )

    readonly_fields = (
        "created_at", "response", "user", "direction", "decision", "reason", "window_from", "window_to", "excerpt",
        "text_sha256", "technique", "version", "scores", "rules", "reviewed_by", "reviewed_at",
    )  # fmt: skip

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: SafetyDecision, form: Any, change: bool) -> None:
        obj.reviewed_by = request.user  # type: ignore[assignment]  # the admin lets nobody anonymous in
        obj.reviewed_at = timezone.now()
        obj.save(update_fields=("review_note", "reviewed_by", "reviewed_at"))

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        return lookup == BY_OWNER or super().lookup_allowed(lookup, value, request)  # type: ignore[arg-type]

    @admin.display(ordering="response__owner__username")
    def user(self, decision: SafetyDecision) -> SafeString:
        return filter_link(BY_OWNER, decision.response.owner)
