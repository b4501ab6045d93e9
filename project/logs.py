"""One JSON object per line on stderr, for our own log calls and for the libraries' alike.

What is bound to the context (request_id, job_id, attempt) is on every line. Parameters and results
are never logged.
"""

import logging
import logging.config
from typing import Any

import structlog

from jobs.ranges import WrongSetting

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")

_SHARED: list[Any] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.format_exc_info,
]


def configure(level: str) -> None:
    if level.upper() not in LEVELS:
        raise WrongSetting("WEIGHBRIDGE_LOG_LEVEL", level, f"one of {', '.join(LEVELS)}")
    structlog.configure(
        processors=[*_SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    logging.raiseExceptions = False  # a closed stderr must not fail whoever logs
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {"json": {"()": _json_formatter}},
            "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
            "root": {"handlers": ["stderr"], "level": level.upper()},
            "loggers": {
                # A line per wake-up says nothing that the job's own lines do not say.
                "celery.app.trace": {"level": "WARNING"},
                "celery.worker.strategy": {"level": "WARNING"},
                "celery.beat": {"level": "WARNING"},
                # It writes down hosts and addresses as they were sent, which may be anything; our own line says as much.
                "django.security": {"level": "CRITICAL"},
                "django.request": {"level": "ERROR", "filters": ["events"]},
            },
            # A 404 or 503 is an answer, not an event.
            "filters": {"events": {"()": "django.utils.log.CallbackFilter", "callback": _is_no_refusal}},
        }
    )


def _is_no_refusal(record: logging.LogRecord) -> bool:
    return getattr(record, "status_code", None) != 503


def _json_formatter() -> logging.Formatter:
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=_SHARED,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.JSONRenderer(),
        ],
    )
