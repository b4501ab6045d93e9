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
from stack.signals import StopRequested, StopSignals

LOOK_SECONDS = 1.0


def main() -> int:
    argparse.ArgumentParser(
        prog="bin/up", description="Run the whole stack in the foreground until Ctrl-C."
    ).parse_args()
    signals = StopSignals()
    signals.install()
    return stay_up(Stack(data_dir_of(os.environ.get("WEIGHBRIDGE_DATA_DIR")), say=tell, hurry=signals.hurry), signals)


def data_dir_of(given: str | None) -> Path:
    """WEIGHBRIDGE_DATA_DIR, relative to the checkout; `.data` unless set."""
    return ROOT / (given or ".data")


def stay_up(stack: Stack, signals: StopSignals) -> int:
    """Start the stack, say that it is ready, keep it up until a signal; the exit code."""
    try:
        stack.start()
        announce(stack)
        while True:
            stack.watch()
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
