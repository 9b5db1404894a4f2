from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "webtrace.accounts"
    verbose_name = "Accounts"
