from django.apps import AppConfig


class DispatchConfig(AppConfig):
    name = "webtrace.dispatch"
    verbose_name = "Dispatch"
