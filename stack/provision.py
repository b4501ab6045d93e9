"""Brings database, static files and demo access up to date; run as a child before the programs start.

    python -m stack.provision   →   exit code 0, or 2 and one sentence on standard error

One process for the three commands, because starting Django is what takes the time.
"""

from __future__ import annotations

import sys
import traceback


def main() -> int:
    import django
    from django.core.management import call_command

    django.setup()
    for command, options in _steps():
        try:
            call_command(command, **options)
        except Exception as error:
            traceback.print_exc(file=sys.stdout)
            print(f"{command} failed: {type(error).__name__}: {' '.join(str(error).split())}", file=sys.stderr)
            return 2
    return 0


def _steps() -> list[tuple[str, dict[str, object]]]:
    quiet: dict[str, object] = {"verbosity": 0}
    return [
        ("migrate", {"interactive": False, "skip_checks": False, **quiet}),
        ("collectstatic", {"interactive": False, **quiet}),
        ("demo_access", quiet),
    ]


if __name__ == "__main__":
    sys.exit(main())
