"""What is wrong with the settings of the execution plane."""

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register

from jobs.ranges import WrongSetting
from workers.reporting import on_attempt_failed
from workers.services import services


@register
def the_hook_can_be_imported(**kwargs: Any) -> list[CheckMessage]:
    path = settings.WEIGHBRIDGE_ON_ATTEMPT_FAILED
    try:
        on_attempt_failed(path)
    except ImportError as error:
        return [
            Error(f"WEIGHBRIDGE_ON_ATTEMPT_FAILED is {path!r}, which cannot be imported: {error}.", id="workers.E001")
        ]
    return []


@register
def the_services_can_be_called(**kwargs: Any) -> list[CheckMessage]:
    try:
        services()
    except WrongSetting as error:
        return [Error(str(error), id="workers.E002")]
    return []
