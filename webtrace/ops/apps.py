from django.apps import AppConfig


class OperationsConfig(AppConfig):
    name = "webtrace.ops"
    verbose_name = "Operations"

    def ready(self) -> None:
        from webtrace.ops import checks, sqlite  # noqa: F401  (registers them)
