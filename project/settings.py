"""Settings, all of them, driven by the environment (the README has the table).

A team's own module may begin with `from project.settings import *` and add apps, models, databases,
cost classes and job modules.
"""

import os

from jobs.cores import usable_cores
from jobs.ranges import Seconds, Whole
from project import env, logs

WEIGHBRIDGE_DATA_DIR = env.data_dir()

# ── Django ───────────────────────────────────────────────────────────────────────────────────────────
SECRET_KEY = env.secret_key(WEIGHBRIDGE_DATA_DIR)
DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1", "localhost", "[::1]", *env.names("WEIGHBRIDGE_ALLOWED_HOSTS")]
CSRF_TRUSTED_ORIGINS = env.names("WEIGHBRIDGE_TRUSTED_ORIGINS")
ROOT_URLCONF = "project.urls"
LOGIN_REDIRECT_URL = "/admin/"
CSRF_FAILURE_VIEW = "jobs.api.errors.csrf_failed"
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "corsheaders",
    "drf_spectacular_sidecar",  # its static files only
    "rest_framework",
    "jobs",
    "workers",
]
MIDDLEWARE = [
    "jobs.api.requests.RequestId",
    "corsheaders.middleware.CorsMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
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
# Pages of which other origins a browser lets call the API, and read what of its answers; none unless it is said.
CORS_ALLOWED_ORIGINS = env.names("WEIGHBRIDGE_CORS_ORIGINS")
CORS_URLS_REGEX = r"^/api/"
CORS_ALLOW_HEADERS = [
    *("accept", "authorization", "content-digest", "content-type", "idempotency-key", "if-match", "if-none-match"),
    *("if-range", "prefer", "range", "traceparent", "x-deadline-ms", "x-request-id"),
]
CORS_EXPOSE_HEADERS = [
    *("Accept-Ranges", "Content-Disposition", "Content-Range", "ETag", "Idempotency-Replayed", "Location"),
    *("Preference-Applied", "RateLimit", "RateLimit-Policy", "Retry-After", "Server-Timing", "X-Request-Id"),
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    # Uploads and artifacts. Every web process and every worker must see the same one: on several machines a shared folder, or S3 and its like.
    "jobs": {
        "BACKEND": "django.core.files.storage.FileSystemStorage",
        "OPTIONS": {
            "location": WEIGHBRIDGE_DATA_DIR / "files",
            "file_permissions_mode": 0o600,
            "directory_permissions_mode": 0o700,
        },
    },
}
STATIC_URL = "/static/"
STATIC_ROOT = WEIGHBRIDGE_DATA_DIR / "static"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
# A browser sends them by https only, if people come by https only; without any origin it may be plain localhost.
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = env.all_https(CSRF_TRUSTED_ORIGINS)
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
FORMAT_MODULE_PATH = ["project.formats"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

_database = env.postgres(env.address("DATABASE_URL", WEIGHBRIDGE_DATA_DIR))
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        **_database,
        # One plain persistent connection per thread or child, checked before it is used again (P34).
        "CONN_MAX_AGE": None,
        "CONN_HEALTH_CHECKS": True,
        "DISABLE_SERVER_SIDE_CURSORS": True,  # pgbouncer in transaction mode (P35)
        # Admission counts in a later statement than its lock, so it needs READ COMMITTED (P1), the default.
        "OPTIONS": {
            "connect_timeout": 2,
            "application_name": "weighbridge",
            # A server that falls silent without closing would else hold a statement for a quarter of an hour. What
            # was sent must be acknowledged within 5 s (in ms here); while an answer is awaited, 5 + 3 × 2 s notice.
            "tcp_user_timeout": 5000,
            "keepalives_idle": 5,
            "keepalives_interval": 2,
            "keepalives_count": 3,
            **_database["OPTIONS"],
            "prepare_threshold": None,
        },
    }
}

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["jobs.api.auth.BearerKey"],
    "DEFAULT_PERMISSION_CLASSES": ["jobs.api.auth.HasScope"],
    "DEFAULT_PARSER_CLASSES": ["jobs.api.bodies.JsonBody"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "jobs.api.bodies.AlwaysJson",
    "EXCEPTION_HANDLER": "jobs.api.errors.problem",
    "UNAUTHENTICATED_USER": None,
}

# ── Weighbridge ──────────────────────────────────────────────────────────────────────────────────────
# Each cost class is one queue, one set of worker processes and one waiting room.
COST_CLASSES = {
    # People wait for it.
    "light": {
        "processes": 2,
        "max_waiting": 100,
        "max_wait_seconds": 10,
        "timeout_seconds": 10,
        "ceiling_seconds": 30,
    },
    # A process per core that the web can spare.
    "heavy": {
        "processes": max(1, usable_cores() - 1),
        "max_waiting": 8,
        "max_wait_seconds": 60,
        "timeout_seconds": 120,
        "ceiling_seconds": 900,
    },
}
WEIGHBRIDGE_JOB_MODULES = ["workers.catalog", *env.names("WEIGHBRIDGE_JOB_MODULES")]

# Three orders of magnitude: notice, tidy, own.
WEIGHBRIDGE_BEAT_SECONDS = env.number("WEIGHBRIDGE_BEAT_SECONDS", 1, Seconds(0.1, 10))
WEIGHBRIDGE_SWEEP_SECONDS = env.number("WEIGHBRIDGE_SWEEP_SECONDS", 1, Seconds(0.1, 4))
WEIGHBRIDGE_LEASE_SECONDS = env.number("WEIGHBRIDGE_LEASE_SECONDS", 30, Seconds(1, 600))
WEIGHBRIDGE_STOP_GRACE_SECONDS = env.number("WEIGHBRIDGE_STOP_GRACE_SECONDS", 30, Seconds(0.1, 900))
WEIGHBRIDGE_LIMIT_GRACE_SECONDS = env.number("WEIGHBRIDGE_LIMIT_GRACE_SECONDS", 5, Seconds(0.1, 60))
WEIGHBRIDGE_KEEP_IDEMPOTENCY_SECONDS = env.number(
    "WEIGHBRIDGE_KEEP_IDEMPOTENCY_SECONDS", 86_400, Seconds(1, 366 * 86_400)
)
WEIGHBRIDGE_KEEP_RESULTS_SECONDS = env.number("WEIGHBRIDGE_KEEP_RESULTS_SECONDS", 86_400, Seconds(1, 366 * 86_400))
WEIGHBRIDGE_KEEP_JOBS_SECONDS = env.number("WEIGHBRIDGE_KEEP_JOBS_SECONDS", 604_800, Seconds(1, 366 * 86_400))
# How long a job that a transaction asked for is tried for, once it is committed.
WEIGHBRIDGE_OUTBOX_SECONDS = env.number("WEIGHBRIDGE_OUTBOX_SECONDS", 3_600, Seconds(1, 7 * 86_400))
WEIGHBRIDGE_KEEP_UPLOADS_SECONDS = env.number("WEIGHBRIDGE_KEEP_UPLOADS_SECONDS", 86_400, Seconds(1, 366 * 86_400))
# Sizes of files. One upload, all that are kept of one client, one artifact, and all of one attempt.
WEIGHBRIDGE_MAX_UPLOAD_BYTES = env.number("WEIGHBRIDGE_MAX_UPLOAD_BYTES", 64 * 2**20, Whole(1024, 2**40))
WEIGHBRIDGE_MAX_CLIENT_UPLOADS_BYTES = env.number("WEIGHBRIDGE_MAX_CLIENT_UPLOADS_BYTES", 2**30, Whole(1024, 2**50))
WEIGHBRIDGE_MAX_ARTIFACT_BYTES = env.number("WEIGHBRIDGE_MAX_ARTIFACT_BYTES", 64 * 2**20, Whole(1024, 2**40))
WEIGHBRIDGE_MAX_ATTEMPT_ARTIFACTS_BYTES = env.number(
    "WEIGHBRIDGE_MAX_ATTEMPT_ARTIFACTS_BYTES", 256 * 2**20, Whole(1024, 2**50)
)
# A function of (exception, workers.reporting.FailedJob), by its dotted name, for an error tracker.
WEIGHBRIDGE_ON_ATTEMPT_FAILED = os.environ.get("WEIGHBRIDGE_ON_ATTEMPT_FAILED", "")
# What http.aggregate may call, by name: {"prices": {"base_url": "http://10.0.0.7:8080/v1", "places": 6}}.
WEIGHBRIDGE_SERVICES: dict[str, dict[str, object]] = {}
WEIGHBRIDGE_PORT = env.number("WEIGHBRIDGE_PORT", 8000, Whole(1, 65_535))
# Of a request's head, of its body, and between two requests of one connection. Whole seconds, and no more: the web server's own range.
WEIGHBRIDGE_ARRIVAL_SECONDS = env.number("WEIGHBRIDGE_ARRIVAL_SECONDS", 30, Whole(1, 60))
WEIGHBRIDGE_WEB_PROCESSES = env.number("WEIGHBRIDGE_WEB_PROCESSES", 2, Whole(1, 64))

# ── Celery ───────────────────────────────────────────────────────────────────────────────────────────
CELERY_BROKER_URL = WEIGHBRIDGE_REDIS_URL = env.address("REDIS_URL", WEIGHBRIDGE_DATA_DIR)
CELERY_TASK_SERIALIZER = CELERY_EVENT_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_IGNORE_RESULT = True
CELERY_RESULT_BACKEND = None
# A busy worker reserves nothing, so a wake-up always goes to a process that is free.
CELERY_WORKER_POOL = "workers.pool:TaskPool"  # prefork, with children that may leave after a job
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_DISABLE_PREFETCH = True
CELERY_TASK_ACKS_LATE = True
CELERY_WORKER_SEND_TASK_EVENTS = True
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None  # the broker may be away for an hour
CELERY_BROKER_CONNECTION_TIMEOUT = 0.5
CELERY_TASK_PUBLISH_RETRY = False
CELERY_BROKER_TRANSPORT_OPTIONS = {
    # Outside the consumer nobody waits longer for Redis than this, once (P32).
    "socket_connect_timeout": 0.5,
    "socket_timeout": 0.5,
    "socket_keepalive": True,
    "max_retries": 0,  # kombu would sleep 2 s before it gives up on a refused connection
    # A consumer on a dead connection notices within 1 + 2 × this; the promise is 60 s.
    "health_check_interval": 10,
}
# Keep the child's connection between tasks: 201 → 617 jobs/s (P34). The fixup counts task starts and
# ends; what replaces a broken connection is the health check, not this number.
CELERY_DB_REUSE_MAX = 1_000_000
CELERY_BEAT_SCHEDULE = {
    "tick": {"task": "weighbridge.tick", "schedule": WEIGHBRIDGE_SWEEP_SECONDS, "options": {"queue": "control"}},
}

LOGGING_CONFIG = None
logs.configure(os.environ.get("WEIGHBRIDGE_LOG_LEVEL", "INFO"))
