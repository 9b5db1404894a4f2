"""Settings. Everything that differs between a laptop and a fleet comes from the environment."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from csp.constants import SELF
from django.core.exceptions import ImproperlyConfigured

from webtrace import environment as env

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = Path(env.text("WEBTRACE_DATA", str(BASE_DIR / "data"))).expanduser().resolve()
DEBUG = env.flag("WEBTRACE_DEBUG", False)
PORT = env.integer("PORT", 8000, at_least=0)


SECRET_KEY = env.text("WEBTRACE_SECRET_KEY") or env.secret(DATA_DIR / "secret_key")

# ---------------------------------------------------------------- where it is reached

ALLOWED_HOSTS = env.words("WEBTRACE_HOSTS", "localhost,127.0.0.1,[::1]")
# Exact origins from which a browser's cookie is accepted on the WebSocket and for writes. Empty: the host asked for.
CSRF_TRUSTED_ORIGINS = env.words("WEBTRACE_ORIGINS")
BEHIND_TLS = env.flag("WEBTRACE_TLS", False)
TRUSTED_PROXY_HOPS = env.integer("WEBTRACE_PROXY_HOPS", 0)
if BEHIND_TLS:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = True
    SECURE_HSTS_SECONDS = 31_536_000
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:", "blob:"],
        "connect-src": [SELF],
        "object-src": ["'none'"],
        "base-uri": ["'none'"],
        "form-action": [SELF],
        "frame-ancestors": ["'none'"],
    }
}

# ---------------------------------------------------------------- applications

INSTALLED_APPS = [
    "daphne",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "csp",
    "axes",
    "webtrace.accounts",
    "webtrace.gateway",
    "webtrace.conversations",
    "webtrace.safety",
    "webtrace.dispatch",
    "webtrace.worker",
    "webtrace.api",
    "webtrace.pages",
    "webtrace.ops",
    "channels",  # behind webtrace.worker, whose `runworker` stands for the one of Channels
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "webtrace.static_files.StaticFilesMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "axes.middleware.AxesMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
ROOT_URLCONF = "webtrace.urls"
ASGI_APPLICATION = "webtrace.asgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en-gb"

# ---------------------------------------------------------------- storage

REDIS_URL = env.text("REDIS_URL")
DATABASES: dict[str, Any]
if url := env.text("DATABASE_URL"):
    DATABASES = {"default": env.database_url(url)}
else:
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": DATA_DIR / "webtrace.sqlite3",
            # Opening one and setting it up costs more than most queries. Threads of single requests close theirs.
            "CONN_MAX_AGE": 60,
            "OPTIONS": {
                # IMMEDIATE: without it, contending read-then-write transactions fail at once instead of waiting.
                "transaction_mode": "IMMEDIATE",
                "timeout": 20,
                "init_command": "PRAGMA synchronous=NORMAL;",  # what stays with the file: webtrace/ops/sqlite.py
            },
        }
    }
if REDIS_URL:
    CHANNEL_LAYERS: dict[str, Any] = {
        "default": {
            "BACKEND": "channels_redis.core.RedisChannelLayer",
            "CONFIG": {
                # The layer waits up to 5 s in one read, as long as redis-py's own limit: which must be longer.
                "hosts": [{"address": REDIS_URL, "socket_timeout": 15}],
                "capacity": 1000,
                "prefix": env.text("WEBTRACE_PREFIX", "webtrace"),
            },
        }
    }
    CACHES: dict[str, Any] = {
        "default": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": REDIS_URL,
            "KEY_PREFIX": env.text("WEBTRACE_PREFIX", "webtrace"),
        }
    }
else:
    CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer", "CONFIG": {"capacity": 1000}}}
    CACHES = {
        "default": {
            "BACKEND": "django.core.cache.backends.locmem.LocMemCache",
            "OPTIONS": {"MAX_ENTRIES": 256},  # views of up to 1 MiB pass through it
        }
    }

# ---------------------------------------------------------------- static files

STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATICFILES_FINDERS = [
    "django.contrib.staticfiles.finders.FileSystemFinder",
    "django.contrib.staticfiles.finders.AppDirectoriesFinder",
    "webtrace.pages.finders.PlotlyFinder",
]
# One process serves everything: what the finders find when it starts, so there is no collect step to forget.
WHITENOISE_USE_FINDERS = True

# ---------------------------------------------------------------- accounts and limits

SESSION_ENGINE = "webtrace.accounts.sessions"
AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = ["axes.backends.AxesStandaloneBackend", "django.contrib.auth.backends.ModelBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]  # fmt: skip
LOGIN_URL = "accounts:login"
LOGIN_REDIRECT_URL = LOGOUT_REDIRECT_URL = "/"
AXES_FAILURE_LIMIT = 10
AXES_COOLOFF_TIME = 1  # hour
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False  # what is refused unseen is no failure and leaves no row
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_VERBOSE = False
AXES_HANDLER = "webtrace.accounts.lockout.LockoutHandler"
AXES_CLIENT_IP_CALLABLE = "webtrace.gateway.address.of_request"
AXES_LOCKOUT_CALLABLE = "webtrace.accounts.views.locked_out"

GUESTS = env.flag("WEBTRACE_GUESTS", not REDIS_URL)  # on by default in the embedded mode
GUEST_ANSWERS_PER_HOUR = env.integer("WEBTRACE_GUEST_ANSWERS_PER_HOUR", 20)
GUEST_DAYS = env.integer("WEBTRACE_GUEST_DAYS", 30)  # without a request, until a guest is forgotten; 0: never
GUEST_MAX_TOKENS = env.integer("WEBTRACE_GUEST_MAX_TOKENS", 300, at_least=1)
NEW_GUESTS_PER_HOUR = env.integer("WEBTRACE_NEW_GUESTS_PER_HOUR", 200, at_least=1)  # from one address
NEW_USERS_PER_HOUR = env.integer("WEBTRACE_NEW_USERS_PER_HOUR", 50, at_least=1)  # from one address
PASSWORDS_PER_HOUR = env.integer("WEBTRACE_PASSWORDS_PER_HOUR", 200, at_least=1)  # from one address, right or wrong
USER_ANSWERS_PER_HOUR = env.integer("WEBTRACE_USER_ANSWERS_PER_HOUR", 600)
USER_MAX_TOKENS = env.integer("WEBTRACE_USER_MAX_TOKENS", 4096, at_least=1)
# Views, pages of events and exports: for each user, and for each share link and address.
READINGS_PER_MINUTE = env.integer("WEBTRACE_READINGS_PER_MINUTE", 1200, at_least=1)
# Every refusal has a journey, up to this many an hour and client; past it refusals are counted, not stored.
STORED_REFUSALS_PER_HOUR = env.integer("WEBTRACE_STORED_REFUSALS_PER_HOUR", 60)
MAX_INPUT_CHARACTERS = env.integer("WEBTRACE_MAX_INPUT_CHARACTERS", 100_000, at_least=1)
MAX_FRAME_BYTES = env.integer("WEBTRACE_MAX_FRAME_BYTES", 512 * 1024, at_least=1024)
DATA_UPLOAD_MAX_MEMORY_SIZE = MAX_FRAME_BYTES

# ---------------------------------------------------------------- responses

ENGINE = env.text("WEBTRACE_ENGINE", "model", choices=("model", "fake"))
REGION = env.text("WEBTRACE_REGION", "local")
UNWATCHED_GRACE_S = env.integer("WEBTRACE_UNWATCHED_GRACE_S", 30, at_least=1)
LEASE_S = env.integer("WEBTRACE_LEASE_S", 6, at_least=2)  # a worker silent for so long is lost
FLUSH_LIVE_MS = 30  # one live message to the hubs at most this often
FLUSH_LOG_MS = 200  # one transaction of the event log at most this often
HELD_AT_ONCE = env.integer("WEBTRACE_HELD_AT_ONCE", 4)  # active responses with breakpoints, for each user
HELD_AT_ONCE_PER_ADDRESS = env.integer("WEBTRACE_HELD_AT_ONCE_PER_ADDRESS", 16)  # whoever asks from there
HOLD_S = env.integer("WEBTRACE_HOLD_S", 60, at_least=1)  # a response held at a breakpoint goes on after so long
VIEW_TIMEOUT_S = 2
MAX_MESSAGE_BYTES = 256_000  # of any message on a socket or channel
MAX_ANSWER_BYTES = 200_000  # of one answer, as JSON: the message of its end repeats it whole

# The engine child reads the same variables; refuse what it could not take before it starts.
env.text("WEBTRACE_DEVICE", "auto", choices=("auto", "cpu", "cuda"))
env.text("WEBTRACE_KERNEL", "auto", choices=("auto", "float32", "bfloat16", "int8", "int4", "native"))

if not DEBUG and SECRET_KEY.startswith("django-insecure-"):
    raise ImproperlyConfigured("WEBTRACE_SECRET_KEY is Django's example key; set a random one.")

# What anybody can send as often as they like must not fill the log. (Filters do not hold for a logger's children.)
_REFUSED_REQUESTS = (
    "DisallowedHost", "SuspiciousOperation", "RequestDataTooBig", "TooManyFieldsSent", "TooManyFilesSent",
    "SuspiciousMultipartForm", "SuspiciousSession", "DisallowedRedirect",
)  # fmt: skip


def _without_traceback(record: logging.LogRecord) -> bool:
    record.exc_info = None
    return True


LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"plain": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "filters": {"one_line": {"()": "django.utils.log.CallbackFilter", "callback": _without_traceback}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "plain"}},
    "root": {"handlers": ["console"], "level": env.text("WEBTRACE_LOG_LEVEL", "INFO")},
    "loggers": {
        "daphne.http_protocol": {"level": "WARNING"},
        "django.channels.server": {"level": "WARNING"},
        **{f"django.security.{name}": {"filters": ["one_line"]} for name in _REFUSED_REQUESTS},
    },
}
