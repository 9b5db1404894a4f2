from django.apps import AppConfig


class PagesConfig(AppConfig):
    name = "webtrace.pages"
    verbose_name = "Pages"
