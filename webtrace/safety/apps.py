from django.apps import AppConfig


class SafetyConfig(AppConfig):
    name = "webtrace.safety"
    verbose_name = "Safety"
