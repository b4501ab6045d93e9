"""Prints, as JSON, what the settings say must run; run as a child so that the launcher itself holds no Django.

    python -m stack.plan   →   {"classes": {"light": 2, …}, "web_processes": 2, "arrival_seconds": 30,
                                "stop_grace_seconds": {"light": 30.0, …, "control": 30.0}}

Exit code 2 and one sentence on standard error when the settings are wrong.
"""

from __future__ import annotations

import json
import os
import sys
import sysconfig
import traceback


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
        "arrival_seconds": settings.WEIGHBRIDGE_ARRIVAL_SECONDS,
        "stop_grace_seconds": {name: stop_grace_seconds(name) for name in [*declared(), CONTROL]},
    }


def check() -> None:
    """Django's own checks and ours: a warning is printed as a line, the first error is raised."""
    from django.conf import settings
    from django.core import checks

    from jobs import classes
    from project import env

    for sentence in env.misspelt(os.environ, {*dir(settings), *classes.variables()}):
        print(f"Warning: {sentence}", file=sys.stderr)
    for message in checks.run_checks():
        if message.is_serious():
            raise ValueError(f"The settings cannot be used: {message.msg}")
        print(f"Warning: {message.msg} {message.hint or ''}".rstrip(), file=sys.stderr)


def sentence_for(error: Exception) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, ValueError) and text:
        return text
    return f"The settings, or a module that they name, cannot be used: {type(error).__name__}: {text}{_where(error)}"


def _where(error: Exception) -> str:
    """The innermost line that is in no library."""
    if isinstance(error, SyntaxError):
        return f" ({error.filename})"  # the line is in its text
    libraries = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_in(frame.filename, libraries)]
    return f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""


def _is_in(file: str, libraries: tuple[str, ...]) -> bool:
    return file.startswith((*libraries, "<frozen"))


if __name__ == "__main__":
    sys.exit(main())
