from django.apps import AppConfig


class APIConfig(AppConfig):
    name = "webtrace.api"
    verbose_name = "API"
