"""The HTTP API."""

from __future__ import annotations

from django.urls import path

from webtrace.api import conversations, me, openai, responses, views
from webtrace.api.http import endpoint
from webtrace.api.schema import schema

urlpatterns = [
    path("api/v1/me", endpoint(visitors=True, GET=me.show)),
    path("api/v1/conversations", endpoint(visitors=True, GET=conversations.index)),
    path(
        "api/v1/conversations/<str:conversation_id>",
        endpoint(GET=conversations.show, PATCH=conversations.change, DELETE=conversations.delete),
    ),
    path("api/v1/conversations/<str:conversation_id>/export", endpoint(GET=conversations.export)),
    path("api/v1/responses/<str:response_id>", endpoint(GET=responses.show)),
    path("api/v1/responses/<str:response_id>/events", endpoint(GET=responses.events)),
    path("api/v1/responses/<str:response_id>/feedback", endpoint(PUT=responses.give_feedback)),
    path("api/v1/responses/<str:response_id>/views/<slug:slug>", endpoint(GET=views.show)),
    path("api/v1/schema", schema),
    path("v1/models", openai.models),
    path("v1/chat/completions", openai.chat_completions),
]
