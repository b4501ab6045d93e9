"""Celery's commands `worker` and `beat`, with Celery's own options, and nothing else of its command line.

    python -m workers.celery_process <worker|beat> <options>   =   celery --app project <worker|beat> <options>

`celery` itself loads all its commands at each start, a shell and Flower among them: half a second of CPU for each worker and beat.
A keeper's worker is no program of its own but a fork of the keeper, which calls `main` itself (workers.celery_fork).
"""

import os
import sys

from celery.app.utils import find_app
from celery.bin import beat, worker
from celery.bin.base import CLIContext

COMMANDS = {"worker": worker.worker, "beat": beat.beat}


def main(name: str, *options: str) -> None:
    """Until the command ends; exits with its status."""
    # A keeper asks the checks before it forks; beat is a clock, which has nothing to check, and would load the whole API for it.
    os.environ.setdefault("CELERY_SKIP_CHECKS", "true")
    context = CLIContext(app=find_app("project"), no_color=False, workdir=None)
    COMMANDS[name].main(options, f"celery {name}", obj=context, auto_envvar_prefix=f"CELERY_{name.upper()}")


if __name__ == "__main__":
    main(*sys.argv[1:])
