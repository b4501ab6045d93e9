"""The process that measuring starts for one number: runs a handler in so many threads or processes, and writes what it found.

`python -m workers.planning.measured`, with what is asked as JSON on standard input.
"""

import json
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any


def main() -> None:
    import django

    asked = json.load(sys.stdin)
    django.setup()
    answer = in_processes(asked) if asked["kind"] == "processes" else in_threads(asked)
    Path(asked["answer"]).write_text(json.dumps(answer))


class Failed(Exception):
    """The handler failed; the text has its code and message."""


def in_threads(asked: dict[str, Any]) -> dict[str, Any]:
    found: list[dict[str, Any]] = []
    together = threading.Barrier(asked["at_once"])
    threads = [
        threading.Thread(target=_one_of_them, args=(asked, together, found.append)) for _ in range(asked["at_once"])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answer = _together(asked, found)
    if "failed" not in answer:  # memory and processor time are those of their one process, for each of them
        answer["peak_bytes"] = answer["peak_bytes_of_one"]
        answer["cpu_share"] = max(each["cpu_seconds"] for each in found) / sum(each["in_runs"] for each in found)
    return answer


def in_processes(asked: dict[str, Any]) -> dict[str, Any]:
    """Forked, as Celery's pool does it, before the handler has run."""
    from django.db import connections

    connections.close_all()
    forking = multiprocessing.get_context("fork")
    together = forking.Barrier(asked["at_once"])
    answers = forking.SimpleQueue()
    processes = [
        forking.Process(target=_one_of_them, args=(asked, together, answers.put)) for _ in range(asked["at_once"])
    ]
    for process in processes:
        process.start()
    if not _all_end_in_order(processes):
        return {"failed": "its process ended in the middle."}
    found = []
    while not answers.empty():
        found.append(answers.get())
    return _together(asked, found)


def _all_end_in_order(processes: list[Any]) -> bool:
    """One that dies would be waited for by the others for ever, so they end with it."""
    while alive := [process for process in processes if process.is_alive()]:
        if any(process.exitcode for process in processes):
            for process in alive:
                process.kill()
        wait([process.sentinel for process in alive])
    return not any(process.exitcode for process in processes)


def _together(asked: dict[str, Any], found: list[dict[str, Any]]) -> dict[str, Any]:
    failures = [each["failed"] for each in found if "failed" in each]
    if failures:
        return {"failed": failures[0]}
    if len(found) < asked["at_once"]:
        return {"failed": "its thread ended in the middle."}
    runs = sum(each["runs"] for each in found)
    elapsed = max(each["ended"] for each in found) - min(each["began"] for each in found)
    in_runs = sum(each["in_runs"] for each in found)
    return {
        "runs": runs,
        "runs_per_second": runs / elapsed,
        "run_seconds": in_runs / runs,
        "peak_bytes": sum(each["peak_bytes"] for each in found),
        "peak_bytes_of_one": max(each["peak_bytes"] for each in found),
        "cpu_share": sum(each["cpu_seconds"] for each in found) / in_runs,
    }


def _one_of_them(asked: dict[str, Any], together: Any, tell: Callable[[dict[str, Any]], None]) -> None:
    from workers.usage import Meter

    meter = Meter()
    try:
        run = _runner(asked)
        run()  # the first one imports what the handler needs, and is not counted
        together.wait()
        tell({**_repeated(run, asked["seconds"]), "peak_bytes": meter.read().peak_rss_bytes or 0})
    except Failed as failed:
        tell({"failed": str(failed)})
        together.abort()
    except threading.BrokenBarrierError:
        pass  # another one has told why


def _repeated(run: Callable[[], None], seconds: float) -> dict[str, Any]:
    """At least once, and as often as the time lets it begin."""
    from workers.usage import cpu_seconds

    cpu, began = cpu_seconds(), time.monotonic()
    runs, ended = 0, began
    while runs == 0 or ended - began < seconds:
        run()
        runs, ended = runs + 1, time.monotonic()
    return {
        "runs": runs,
        "began": began,
        "ended": ended,
        "in_runs": ended - began,
        "cpu_seconds": cpu_seconds() - cpu,
    }


def _runner(asked: dict[str, Any]) -> Callable[[], None]:
    """What runs the handler once, as `manage.py run` does; raises Failed. Files it leaves go with the measurement."""
    from workers import by_hand, outcomes, runner
    from workers.artifacts import Artifacts, Memory
    from workers.retries import Retry

    job_type = by_hand.type_of(asked["type"])
    params, cost_class = by_hand.params_of(job_type, asked["params"])
    uploads = {name: Path(file) for name, file in asked["uploads"].items()}
    os.chdir(asked["folder"])

    def run() -> None:
        context = by_hand.context_of(
            job_type, params, report=lambda fraction, note: None, artifacts=Artifacts(Memory()), uploads=uploads
        )
        try:
            outcome = outcomes.of_result(runner.call(job_type.handler, context), cost_class.name)
        except BaseException as error:  # SystemExit and MemoryError are a job's failure too
            outcome = outcomes.of_exception(
                error, job_type.retry or Retry(), deadline_came_first=False, cancelled=False
            )
        if outcome.error_code:
            raise Failed(f"{outcome.error_code}: {outcome.error_message}")

    return run


if __name__ == "__main__":
    main()
