"""Forms of the account pages."""

from __future__ import annotations

import re
from typing import Any

from django import forms
from django.contrib.auth.forms import UserCreationForm

from webtrace.accounts.models import ApiKey, User

_LIKE_A_GUEST = re.compile(r"guest(?![^\W\d_])")  # and no letter after it: "guesthouse" is a name like any other


class SignUpForm(UserCreationForm):  # type: ignore[type-arg]
    """Makes a user, or gives the guest of this browser a name and a password."""

    class Meta(UserCreationForm.Meta):  # its field unifies the look-alikes of a name
        model = User

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial.pop("username", None)  # a guest's, which nobody may keep

    def clean_username(self) -> str:
        """A name that looks like a guest's would mislead whoever reads the records."""
        name = super().clean_username()
        if name and _LIKE_A_GUEST.match(name.casefold()):
            raise forms.ValidationError("Names like “guest-1” are kept for guests; choose another.")
        return name

    def save(self, commit: bool = True) -> Any:
        self.instance.is_guest = False
        return super().save(commit)


class ApiKeyForm(forms.Form):
    name = forms.CharField(
        max_length=ApiKey._meta.get_field("name").max_length, required=False, label="What the key is for"
    )
