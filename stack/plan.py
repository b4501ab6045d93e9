"""Prints, as JSON, what the settings say must run; run as a child so that the launcher itself holds no Django.

    python -m stack.plan   →   {"classes": {"light": 2, …}, "web_processes": 2,
                                "stop_grace_seconds": {"light": 30.0, …, "control": 30.0}}

Exit code 2 and one sentence on standard error when the settings are wrong.
"""

from __future__ import annotations

import json
import sys


def main() -> int:
    try:
        print(json.dumps(plan()))
    except Exception as error:
        # Whatever a settings module raises, the person who starts the stack gets one sentence.
        print(sentence_for(error), file=sys.stderr)
        return 2
    return 0


def plan() -> dict[str, object]:
    import django

    django.setup()

    from django.conf import settings

    from jobs.classes import CONTROL, declared, stop_grace_seconds

    check()
    return {
        "classes": {name: cost_class.processes for name, cost_class in declared().items()},
        "web_processes": settings.WEIGHBRIDGE_WEB_PROCESSES,
        "stop_grace_seconds": {name: stop_grace_seconds(name) for name in [*declared(), CONTROL]},
    }


def check() -> None:
    """Django's own checks and ours: a warning is printed as a line, the first error is raised."""
    from django.core import checks

    for message in checks.run_checks():
        if message.is_serious():
            raise ValueError(f"The settings cannot be used: {message.msg}")
        print(f"Warning: {message.msg} {message.hint or ''}".rstrip(), file=sys.stderr)


def sentence_for(error: Exception) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, ValueError) and text:
        return text
    return f"The settings cannot be used: {type(error).__name__}: {text}"


if __name__ == "__main__":
    sys.exit(main())
