"""bin/up: the whole stack in the foreground until Ctrl-C or TERM."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from stack.failures import StackError
from stack.local import Stack
from stack.programs import ROOT
from stack.reload import Reloader
from stack.signals import StopRequested, StopSignals

LOOK_SECONDS = 1.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="bin/up", description="Run the whole stack in the foreground until Ctrl-C.")
    parser.add_argument("--reload", action="store_true", help="restart the web and the workers when code changes")
    options = parser.parse_args()
    signals = StopSignals()
    signals.install()
    stack = Stack(data_dir_of(os.environ.get("WEIGHBRIDGE_DATA_DIR")), say=tell, hurry=signals.hurry)
    return stay_up(stack, signals, reload=options.reload)


def data_dir_of(given: str | None) -> Path:
    """WEIGHBRIDGE_DATA_DIR, relative to the checkout; `.data` unless set."""
    return ROOT / (given or ".data")


def stay_up(stack: Stack, signals: StopSignals, reload: bool = False) -> int:
    """Start the stack, say that it is ready, keep it up until a signal; the exit code."""
    reloader = Reloader(stack, tell) if reload else None
    try:
        stack.start()
        announce(stack)
        while True:
            stack.watch()
            if reloader:
                reloader.look()
            time.sleep(LOOK_SECONDS)
    except StopRequested:
        return 0
    except StackError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        signals.begin_stopping()
        stack.stop()


def announce(stack: Stack) -> None:
    print(f"ready {stack.url}", flush=True)
    for line in where_to_look(stack):
        print(line, flush=True)


def where_to_look(stack: Stack) -> list[str]:
    folder = stack.data_dir
    rows = [
        ("jobs", f"{stack.url}/api/v1/jobs   (key in {folder / 'demo-key'})"),
        ("admin", f"{stack.url}/admin/   (user admin, password in {folder / 'admin-password'})"),
        ("Flower", f"http://127.0.0.1:{stack.flower_port}   (user admin, password in {folder / 'flower-password'})"),
        ("metrics", f"{stack.url}/metrics"),
        ("logs", f"{folder / 'logs'}"),
    ]
    return [f"  {name:<8} {place}" for name, place in rows]


def tell(sentence: str) -> None:
    """Progress goes to standard error: standard output holds the ready line and where to look."""
    print(sentence, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
