"""Write docs/protocol.md from the wire's types."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from webtrace.api.protocol import document

PATH = settings.BASE_DIR / "docs" / "protocol.md"


class Command(BaseCommand):
    help = "Write docs/protocol.md from the types of the wire."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--check", action="store_true", help="Write nothing; fail when the document is stale.")

    def handle(self, *args: Any, **options: Any) -> None:
        text = document()
        if options["check"]:
            if not PATH.exists() or PATH.read_text() != text:
                raise CommandError("docs/protocol.md is stale: run `manage.py protocol`.")
            return
        PATH.parent.mkdir(exist_ok=True)
        PATH.write_text(text)
        self.stdout.write(f"Wrote {PATH.relative_to(settings.BASE_DIR)}.")
