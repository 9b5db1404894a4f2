"""The site's own pages."""

from __future__ import annotations

from django.urls import path

from webtrace.pages import views

app_name = "pages"
urlpatterns = [
    path("", views.app, name="app"),
    path("c/<uuid:conversation_id>", views.app, name="conversation"),
    path("s/<slug:token>", views.shared, name="shared"),
    path("open", views.opened, name="open"),
    path("page/models", views.models, name="models"),
    path("healthz", views.healthz, name="healthz"),
]
