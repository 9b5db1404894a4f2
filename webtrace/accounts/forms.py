"""Forms of the account pages."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.auth.forms import UserCreationForm

from webtrace.accounts.models import ApiKey, User


class SignUpForm(UserCreationForm):  # type: ignore[type-arg]
    """Makes a user, or gives the guest of this browser a name and a password."""

    class Meta(UserCreationForm.Meta):  # its field unifies the look-alikes of a name
        model = User

    def save(self, commit: bool = True) -> Any:
        self.instance.is_guest = False
        return super().save(commit)


class ApiKeyForm(forms.Form):
    name = forms.CharField(
        max_length=ApiKey._meta.get_field("name").max_length, required=False, label="What the key is for"
    )
