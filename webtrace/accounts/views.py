"""Sign-up, login, logout, password change, and the page of API keys."""

from __future__ import annotations

from typing import Any, cast

from django.contrib import messages
from django.contrib.auth import login, views
from django.contrib.auth.decorators import login_required
from django.contrib.auth.forms import AuthenticationForm
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse_lazy
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from webtrace.accounts import services
from webtrace.accounts.forms import ApiKeyForm, SignUpForm
from webtrace.accounts.guests import BACKEND
from webtrace.accounts.models import ApiKey, User
from webtrace.gateway import address, limits


@require_http_methods(["GET", "POST"])
@never_cache
def sign_up(request: HttpRequest) -> HttpResponse:
    """A guest keeps their row, and with it their conversations, and comes back to the one they left."""
    if request.user.is_authenticated and not _guest(request):
        return redirect(_place(request))
    form, status = SignUpForm(request.POST or None, instance=_guest(request)), 200
    if request.method == "POST" and form.is_valid():
        if limits.may_sign_up(address.of_request(request)):
            user = form.save()
            login(request, user, backend=BACKEND)
            return redirect(_place(request))
        form.add_error(None, "Too many new accounts come from your network address; try again in an hour.")
        status = 429
    context = {"form": form, "guest": _guest(request) is not None, "next": _place(request)}
    return render(request, "accounts/signup.html", context, status=status)


class LogInView(views.LoginView):
    """A guest's conversations go to the user they log in as."""

    template_name = "accounts/login.html"

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        guest = _guest(self.request)
        response = super().form_valid(form)
        user = form.get_user()
        if guest is not None and guest.pk != user.pk:
            services.merge_guest(guest=guest, user=user)
        return response


class LogOutView(views.LogoutView):
    """Sockets opened by this session close at once."""

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        user_id = request.user.pk
        response = super().post(request, *args, **kwargs)
        if user_id is not None:
            services.tell_sockets(user_id=user_id)
        return response


class PasswordChangeView(views.PasswordChangeView):
    """All other sessions of the user end with the old password. A guest, who has none, is led to the sign-up."""

    template_name = "accounts/password_change.html"
    success_url = reverse_lazy("accounts:keys")

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        return redirect("accounts:signup") if _guest(request) else super().dispatch(request, *args, **kwargs)

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if limits.may_try_password(address.of_request(request)):
            return super().post(request, *args, **kwargs)
        messages.error(request, "Too many passwords were tried from your network address; try again in an hour.")
        context = self.get_context_data(form=self.form_class(cast(User, request.user)))
        return self.render_to_response(context, status=429)

    def form_valid(self, form: Any) -> HttpResponse:
        response = super().form_valid(form)
        services.tell_sockets(user_id=form.user.pk)
        messages.success(self.request, "Your password is changed. Other sessions of yours have ended.")
        return response


def locked_out(request: HttpRequest, response: HttpResponse | None, credentials: dict[str, Any]) -> HttpResponse:
    """What axes shows in place of a login that it refuses: the form, with the reason."""
    messages.error(
        request,
        "Too many wrong passwords, or too many from your network address. Wait an hour, or ask an administrator.",
    )
    return render(request, "accounts/login.html", {"form": AuthenticationForm(request)}, status=429)


@login_required
@never_cache
@require_http_methods(["GET", "POST"])
def keys(request: HttpRequest) -> HttpResponse:
    """The user's keys. A new one is shown once, in the answer to the form that made it."""
    if _guest(request):
        return redirect("accounts:signup")
    form, new_key = ApiKeyForm(request.POST or None), None
    if request.method == "POST" and form.is_valid():
        _, new_key = ApiKey.make(user=cast(User, request.user), name=form.cleaned_data["name"])
        form = ApiKeyForm()
    context = {"form": form, "keys": ApiKey.objects.filter(user=request.user.pk), "new_key": new_key}
    return render(request, "accounts/keys.html", context)


@login_required
@require_POST
def revoke_key(request: HttpRequest, key_id: int) -> HttpResponse:
    services.revoke_key(key=get_object_or_404(ApiKey, pk=key_id, user=request.user.pk))
    messages.success(request, "The key is revoked.")
    return redirect("accounts:keys")


def _place(request: HttpRequest) -> str:
    """Where to go on: what `next` names, if it is of this site."""
    wanted = request.POST.get("next") or request.GET.get("next") or "/"
    is_ours = url_has_allowed_host_and_scheme(wanted, {request.get_host()}, require_https=request.is_secure())
    return wanted if is_ours else "/"


def _guest(request: HttpRequest) -> User | None:
    user = request.user
    return user if isinstance(user, User) and user.is_guest else None
