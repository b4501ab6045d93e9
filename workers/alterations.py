"""What a handler changed of its whole process, and left so: it would be the next job's too."""

import os
import resource
from collections.abc import Callable
from typing import Any

_LIMITS = ("RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_DATA", "RLIMIT_FSIZE", "RLIMIT_NOFILE", "RLIMIT_STACK")


def _umask() -> int:
    now = os.umask(0o077)
    os.umask(now)
    return now


_LOOKS: dict[str, Callable[[], Any]] = {
    "working directory": os.getcwd,
    "umask": _umask,
    **{name: lambda name=name: resource.getrlimit(getattr(resource, name)) for name in _LIMITS},  # type: ignore[misc]
}


class Alterations:
    """Made before the first job; see `found`."""

    def __init__(self) -> None:
        self._before = _seen()

    def found(self) -> list[str]:
        """Names of what is no longer as it was."""
        return [name for name, value in _seen().items() if value != self._before[name]]


def _seen() -> dict[str, Any]:
    return {name: _look(look) for name, look in _LOOKS.items()}


def _look(look: Callable[[], Any]) -> Any:
    try:
        return look()
    except OSError:  # the working directory was removed
        return None
