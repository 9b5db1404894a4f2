from django.apps import AppConfig


class GatewayConfig(AppConfig):
    name = "webtrace.gateway"
    verbose_name = "Gateway"
