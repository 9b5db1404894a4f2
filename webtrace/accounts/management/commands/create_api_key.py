"""Make an API key from the command line."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from webtrace.accounts.models import ApiKey, User


class Command(BaseCommand):
    help = "Make an API key for a user. The key is the last line printed, and cannot be shown again."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username")
        parser.add_argument("--name", default="", help="What the key is for.")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["username"], is_guest=False).first()
        if user is None:
            raise CommandError(f"There is no user {options['username']!r}.")
        _, key = ApiKey.make(user=user, name=options["name"])
        self.stdout.write(f"A key for {user.username}; keep it, it is not stored:")
        self.stdout.write(key)
