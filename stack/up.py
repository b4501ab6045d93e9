"""bin/up: the whole stack in the foreground until Ctrl-C or TERM."""

from __future__ import annotations

import argparse
import sys
from typing import NoReturn

from stack.foreground import in_foreground, keep_up, tell, where_to_look
from stack.local import Stack
from stack.reload import Reloader


def main() -> int:
    parser = argparse.ArgumentParser(prog="bin/up", description="Run the whole stack in the foreground until Ctrl-C.")
    parser.add_argument("--reload", action="store_true", help="restart the web and the workers when code changes")
    reload = parser.parse_args().reload
    return in_foreground(lambda stack: stay_up(stack, reload), when_stopped=0)


def stay_up(stack: Stack, reload: bool) -> NoReturn:
    """Start the stack, say that it is ready, keep it up until a signal."""
    # Made before the start, so that a change during it is seen.
    reloader = Reloader(stack, tell) if reload else None
    stack.start()
    announce(stack)
    keep_up(stack, reloader.look if reloader else None)


def announce(stack: Stack) -> None:
    print(f"ready {stack.url}", flush=True)
    for line in where_to_look(stack):
        print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
