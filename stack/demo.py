"""bin/demo: starts the stack, runs real jobs over HTTP, shows a burst beyond the limit, stops everything it started."""

from __future__ import annotations

import argparse
import http.client
import sys

from stack.demo_burst import BurstReport, run_burst
from stack.demo_jobs import Surprise, Visit, follow, submit_all, tour_jobs
from stack.demo_screen import Screen, burst_lines, table
from stack.foreground import in_foreground, keep_up, where_to_look
from stack.http_calls import Caller
from stack.local import Stack
from stack.signals import StopRequested

INTERRUPTED = 130


def main() -> int:
    options = _options()
    return in_foreground(lambda stack: tour(stack, options.seconds, options.keep), when_stopped=INTERRUPTED)


def tour(stack: Stack, search_seconds: float, keep: bool) -> int:
    """Start the stack and show everything; the exit code."""
    stack.start()
    surprises = show(stack, search_seconds)
    return _keep_up(stack, surprises) if keep else _code(surprises)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bin/demo", description="Run real jobs, then a burst beyond the limit, on a stack of its own."
    )
    parser.add_argument("--keep", action="store_true", help="leave the stack up until Ctrl-C")
    parser.add_argument(
        "--seconds",
        type=_search_time,
        default=3.0,
        metavar="N",
        help="search time of the route (default 3, at most 60)",
    )
    return parser.parse_args()


def _search_time(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0.1 <= seconds <= 60:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0.1 to 60")
    return seconds


def show(stack: Stack, search_seconds: float) -> list[str]:
    """Everything the demo shows; returns what was not as it should be, in sentences."""
    print(f"The stack is up at {stack.url}\n")
    caller = Caller(stack.port, stack.key)
    try:
        visits = _show_tour(caller, search_seconds)
        report = _show_burst(caller)
    except Surprise as surprise:
        return _told([str(surprise)])
    except (OSError, http.client.HTTPException) as error:
        return _told([f"The web server did not answer: {error}."])
    return _told([*_failed(visits), *report.surprises()])


def _show_tour(caller: Caller, search_seconds: float) -> list[Visit]:
    visits = tour_jobs(search_seconds)
    submit_all(caller, visits)
    follow(caller, visits, Screen(sys.stdout))
    print()
    print("\n".join(table(visits)))
    return visits


def _show_burst(caller: Caller) -> BurstReport:
    print("\nNow a burst beyond the limit of the class heavy, while light jobs and /healthz are timed …\n", flush=True)
    report = run_burst(caller)
    print("\n".join(burst_lines(report)), flush=True)
    return report


def _failed(visits: list[Visit]) -> list[str]:
    return [
        f"The job {visit.type} {visit.job['id']} ended {visit.job['state']}."
        for visit in visits
        if visit.job["state"] != "succeeded"
    ]


def _told(surprises: list[str]) -> list[str]:
    for surprise in surprises:
        print(f"Surprise: {surprise}", file=sys.stderr)
    return surprises


def _code(surprises: list[str]) -> int:
    return 1 if surprises else 0


def _keep_up(stack: Stack, surprises: list[str]) -> int:
    print("\nThe stack stays up until Ctrl-C:")
    print("\n".join(where_to_look(stack)))
    print(f"  key      {stack.key}", flush=True)
    try:
        keep_up(stack)
    except StopRequested:
        return _code(surprises)


if __name__ == "__main__":
    sys.exit(main())
