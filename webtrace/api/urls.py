"""The HTTP API."""

from __future__ import annotations

from django.urls import path

from webtrace.api import conversations, me, openai, responses, shared, views
from webtrace.api.http import endpoint
from webtrace.api.schema import schema, trace_schema

urlpatterns = [
    path("api/v1/me", endpoint(visitors=True, GET=me.show)),
    path("api/v1/conversations", endpoint(visitors=True, GET=conversations.index)),
    path(
        "api/v1/conversations/<str:conversation_id>",
        endpoint(GET=conversations.show, PATCH=conversations.change, DELETE=conversations.delete),
    ),
    path("api/v1/conversations/<str:conversation_id>/export", endpoint(costs_reading=True, GET=conversations.export)),
    path("api/v1/responses", endpoint(visitors=True, GET=responses.index)),
    path("api/v1/responses/<str:response_id>", endpoint(GET=responses.show)),
    path("api/v1/responses/<str:response_id>/events", endpoint(costs_reading=True, GET=responses.events)),
    path("api/v1/responses/<str:response_id>/feedback", endpoint(PUT=responses.give_feedback)),
    path("api/v1/responses/<str:response_id>/views/<slug:slug>", endpoint(costs_reading=True, GET=views.show)),
    path(
        "api/v1/responses/<str:response_id>/share",
        endpoint(GET=responses.share, PUT=responses.make_share, DELETE=responses.take_back_share),
    ),
    path("api/v1/responses/<str:response_id>/export", endpoint(costs_reading=True, GET=responses.export)),
    path("api/v1/shared/<slug:token>", endpoint(visitors=True, costs_reading=True, GET=shared.show)),
    path("api/v1/shared/<slug:token>/events", endpoint(visitors=True, costs_reading=True, GET=shared.events)),
    path("api/v1/shared/<slug:token>/views/<slug:slug>", endpoint(visitors=True, costs_reading=True, GET=shared.view)),
    path("api/v1/shared/<slug:token>/export", endpoint(visitors=True, costs_reading=True, GET=shared.export)),
    path("api/v1/schema", schema),
    path("api/v1/schema/trace", trace_schema),
    path("v1/models", openai.models),
    path("v1/chat/completions", openai.chat_completions),
]
