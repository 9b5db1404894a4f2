from django.apps import AppConfig


class WorkerConfig(AppConfig):
    name = "webtrace.worker"
    verbose_name = "Worker"
