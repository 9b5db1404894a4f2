from django.apps import AppConfig


class ConversationsConfig(AppConfig):
    name = "webtrace.conversations"
    verbose_name = "Conversations"
