"""Admin of conversations and responses: the record of what was asked and what became of it."""

from __future__ import annotations

from typing import Any, cast

from django.contrib import admin
from django.db.models import Count, QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString

from webtrace.conversations.event_table import event_table
from webtrace.conversations.models import Conversation, Feedback, Message, Response, Share
from webtrace.read_only_admin import OwnedAdmin, ReadOnlyInline
from webtrace.safety.models import SafetyDecision

TOKEN_COUNTS = ("num_prompt_tokens", "num_answer_tokens", "num_prefix_tokens")
LATENCIES = ("queue_ms", "time_to_first_token_ms", "end_to_end_ms")


class MessageInline(ReadOnlyInline):
    model = Message
    fields = ("created_at", "role", "content", "parent")
    readonly_fields = fields


class ResponseInline(ReadOnlyInline):
    model = Response
    fields = ("created_at", "status", "finish_reason", "model", "num_answer_tokens", "end_to_end_ms")
    readonly_fields = fields


@admin.register(Conversation)
class ConversationAdmin(OwnedAdmin):
    list_display = ("__str__", "of", "num_messages", "created_at", "updated_at")
    list_filter = ("created_at", "updated_at", "owner__is_guest", "responses__safety_decisions__decision")
    search_fields = ("id", "title", "owner__username", "messages__content")
    list_select_related = ("owner",)
    date_hierarchy = "created_at"
    inlines = (MessageInline, ResponseInline)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        found = super().get_queryset(request)
        return cast(QuerySet[Any], found.annotate(num_messages=Count("messages", distinct=True)))

    @admin.display(ordering="num_messages")
    def num_messages(self, conversation: Any) -> int:
        return int(conversation.num_messages)


class FeedbackInline(ReadOnlyInline):
    model = Feedback


class ShareInline(ReadOnlyInline):
    model = Share
    fields = readonly_fields = ("created_at",)


class SafetyDecisionInline(ReadOnlyInline):
    model = SafetyDecision
    fields = ("created_at", "direction", "decision", "reason", "window_from", "window_to", "excerpt", "version")
    readonly_fields = fields


@admin.register(Response)
class ResponseAdmin(OwnedAdmin):
    list_display = (
        "created_at", "of", "status", "finish_reason", "error_code", "model", *TOKEN_COUNTS, *LATENCIES,
    )  # fmt: skip
    list_filter = (
        "created_at", "status", "finish_reason", "refused_at_stage", "transport", "owner__is_guest",
        "safety_decisions__decision", "feedback__rating",
    )  # fmt: skip
    search_fields = ("id", "owner__username", "text", "error_code", "error_message", "event_id", "worker_id")
    list_select_related = ("owner",)
    date_hierarchy = "created_at"
    inlines = (SafetyDecisionInline, FeedbackInline, ShareInline)
    fieldsets = (
        (None, {"fields": ("id", "owner", "conversation", "user_message", "answer", "transport", "event_id")}),
        ("Asked", {"fields": ("requested_model", "sampling", "request", "trace")}),
        (
            "Answered",
            {"fields": ("status", "finish_reason", "error_code", "error_message", "refused_at_stage", "text")},
        ),
        ("Computed", {"fields": ("model", "fingerprint", "worker_id", "epoch", *TOKEN_COUNTS, "resources")}),
        ("Times", {"fields": ("created_at", "taken_at", "ended_at", *LATENCIES)}),
        ("Events", {"fields": ("events",)}),
    )
    readonly_fields = ("events",)

    @admin.display(description="")
    def events(self, response: Response) -> SafeString:
        return event_table(response.pk)
