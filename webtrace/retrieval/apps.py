from django.apps import AppConfig


class RetrievalConfig(AppConfig):
    name = "webtrace.retrieval"
    verbose_name = "Retrieval"
