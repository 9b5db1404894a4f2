"""`manage.py setup`: from a fresh checkout to something that can be served. Every step may be repeated."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, transaction

from inference.checkpoint.fetch import CHAT_MODEL, SENTENCE_ENCODER, FetchError, Source, fetch, verify
from inference.settings import BadSetting, EngineSettings
from webtrace import environment as env
from webtrace.ops.probe import ProbeError, probe, processor


class Command(BaseCommand):
    help = "Fetches the checkpoints, prepares the database, makes an admin account the first time, probes the machine."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--verify", action="store_true", help="read the checkpoints whole and compare hashes")

        parser.add_argument("--checkpoints-only", action="store_true", help="fetch, and leave everything else alone")

    def handle(self, *args: Any, **options: Any) -> None:
        self._say(f"Data folder: {settings.DATA_DIR}")
        try:
            protect_secret_key(settings.DATA_DIR / "secret_key")
            self._fetch(verify_too=options["verify"])
            if options["checkpoints_only"]:
                return
            call_command("migrate", interactive=False, verbosity=0)
            self._make_admin()
        except DatabaseError as error:
            raise CommandError(
                f"The database could not be prepared ({error}): check DATABASE_URL and the disk."
            ) from error
        except OSError as error:
            raise CommandError(f"{settings.DATA_DIR} is no use ({error}): mend that or set WEBTRACE_DATA.") from error
        self._probe()

    def _fetch(self, *, verify_too: bool) -> None:
        models = settings.DATA_DIR / "models"
        for engine in _engines():
            if env.text("WEBTRACE_MODEL") and not engine.model.exists():
                raise CommandError(f"WEBTRACE_MODEL names {engine.model}, which does not exist: correct or unset it.")
        for source in _sources():
            try:
                fetch(source, models, say=self._say)
            except FetchError as error:
                raise CommandError(str(error)) from error
            if verify_too and (wrong := verify(source, models)):
                raise CommandError(f"{wrong[0]} is not what was fetched: delete it and run this again.")

    def _make_admin(self) -> None:
        password = make_first_admin()
        if password:
            self._say(f"Admin account made: user name admin, password {password} (shown this once)")

    def _probe(self) -> None:
        self._say(f"Machine: {processor()}")
        for engine in _engines():
            remembered = settings.DATA_DIR / f"probe-{engine.model_name}.json"
            try:
                facts = probe(engine.model, device=engine.device, kernel=engine.kernel, remembered=remembered)
            except ProbeError as error:
                raise CommandError(str(error)) from error
            for name, value in facts.items():
                self._say(f"  {name}: {value}")

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()  # pip writes to the same terminal from another process


def _engines() -> list[EngineSettings]:
    try:
        return EngineSettings.all_from_environment()
    except BadSetting as error:
        raise CommandError(str(error)) from error


def _sources() -> list[Source]:
    return [SENTENCE_ENCODER] if env.text("WEBTRACE_MODEL") else [CHAT_MODEL, SENTENCE_ENCODER]


def protect_secret_key(path: Path) -> None:
    """The settings made the key with mode 600; one that was copied in loosely is closed again."""
    if path.exists() and path.stat().st_mode & 0o077:
        path.chmod(0o600)


@transaction.atomic
def make_first_admin() -> str | None:
    """The new password of the user `admin`, or None where somebody can administer already."""
    users = get_user_model().objects
    if users.filter(is_superuser=True).exists():
        return None
    password = secrets.token_urlsafe(12)
    users.create_superuser(username="admin", password=password)
    return password
