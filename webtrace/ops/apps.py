from django.apps import AppConfig


class OperationsConfig(AppConfig):
    name = "webtrace.ops"
    verbose_name = "Operations"
