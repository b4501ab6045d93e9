#!/usr/bin/env python
"""Django's command line for this project. A wrong setting ends in its sentence, not in a traceback."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    from django.core.management import execute_from_command_line

    from jobs.ranges import WrongSetting
    from jobs.registry import WrongJobType

    try:
        execute_from_command_line(sys.argv)
    except (WrongSetting, WrongJobType) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
