"""Where each address leads."""

from __future__ import annotations

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path

handler400 = "webtrace.api.errors.bad_request"
handler403 = "webtrace.api.errors.permission_denied"
handler404 = "webtrace.api.errors.page_not_found"
handler500 = "webtrace.api.errors.server_error"

admin.site.site_header = admin.site.site_title = "Webtrace administration"

urlpatterns: list[URLPattern | URLResolver] = [
    path("admin/", admin.site.urls),
    path("accounts/", include("webtrace.accounts.urls")),
    path("", include("webtrace.api.urls")),
    path("", include("webtrace.pages.urls")),
]
