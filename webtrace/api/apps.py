from django.apps import AppConfig
from django.core.signals import request_finished


class APIConfig(AppConfig):
    name = "webtrace.api"
    verbose_name = "API"

    def ready(self) -> None:
        from webtrace.api.database import release_connection

        request_finished.connect(release_connection, dispatch_uid="release_connection")
