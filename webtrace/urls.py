"""Where each address leads."""

from __future__ import annotations

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path

urlpatterns: list[URLPattern | URLResolver] = [
    path("admin/", admin.site.urls),
    path("accounts/", include("webtrace.accounts.urls")),
    path("", include("webtrace.api.urls")),
    path("", include("webtrace.pages.urls")),
]
