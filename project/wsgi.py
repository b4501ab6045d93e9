"""The web application, for any WSGI server.

Under granian each web process ends with the main process that started it: one that outlived a killed main process would
hold the port, and nobody would ever stop it. Other servers look after their processes in their own ways, and the parent
of a server without a main process is whatever started it, a shell perhaps; so there nothing is done.
"""

import os
from pathlib import Path

from django.core.wsgi import get_wsgi_application

from workers import kernel


def _is_granian(command: list[str]) -> bool:
    """Of `granian …`, or `python -m granian …`."""
    return any(Path(word).name == "granian" for word in command[:4])


os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
if _is_granian(kernel.command_of(os.getppid())):
    kernel.die_with_parent()
application = get_wsgi_application()
