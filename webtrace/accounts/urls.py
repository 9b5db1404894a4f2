"""The account pages, under /accounts/."""

from __future__ import annotations

from django.urls import path

from webtrace.accounts import views

app_name = "accounts"
urlpatterns = [
    path("signup/", views.sign_up, name="signup"),
    path("login/", views.LogInView.as_view(), name="login"),
    path("logout/", views.LogOutView.as_view(), name="logout"),
    path("password/", views.PasswordChangeView.as_view(), name="password_change"),
    path("keys/", views.keys, name="keys"),
    path("keys/<int:key_id>/revoke/", views.revoke_key, name="revoke_key"),
]
