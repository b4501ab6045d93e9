import json
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any
from uuid import UUID

import structlog
from django.core.management.base import BaseCommand, CommandError
from pydantic import BaseModel

from jobs.classes import CostClass
from jobs.files import upload_ids
from jobs.lifecycle import Outcome
from jobs.registry import JobType
from jobs.states import State
from workers import by_hand, outcomes, runner
from workers.artifacts import Artifacts, Folder
from workers.by_hand import Refused
from workers.context import JobContext
from workers.logbook import LOGGER
from workers.once import Memory, once
from workers.retries import Retry
from workers.uploads import open_file

UNLIMITED_SECONDS = 86_400.0  # the longest limit there is: nobody sits that long in a debugger


class Command(BaseCommand):
    help = (
        "Run one handler here and now, with its limits off, so that a debugger works. Progress and log go to standard"
        " error, the result as JSON to standard output. The exit status is 1 if it fails."
    )
    requires_system_checks: list[str] = []  # none of them is about a handler

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("type", help="a job type, for example numbers.sum_squares")
        parser.add_argument(
            "params", nargs="?", help="a JSON file with its params, - for standard input; {} if left out"
        )
        parser.add_argument(
            "--upload",
            action="append",
            default=[],
            metavar="ID=FILE",
            help="a file of this machine that stands for the upload that the params name by this id; may be repeated",
        )
        parser.add_argument(
            "--artifacts", type=Path, metavar="FOLDER", help="where its files go; a new folder in /tmp if left out"
        )

    def handle(self, *args: Any, type: str, params: str | None, **options: Any) -> None:
        self._uploads = _uploads(options["upload"])
        self._folder: Path | None = options["artifacts"]
        try:
            job_type = by_hand.type_of(type)
            model, cost_class = by_hand.params_of(job_type, _read(params))
        except Refused as error:
            raise CommandError(str(error)) from None
        outcome = self._run(job_type, model, cost_class)
        if outcome.state is not State.SUCCEEDED:
            raise SystemExit(self._tell(outcome))
        self.stdout.write(json.dumps(outcome.result, ensure_ascii=False, indent=2))

    def _run(self, job_type: JobType, params: BaseModel, cost_class: CostClass) -> Outcome:
        try:
            return outcomes.of_result(runner.call(job_type.handler, self._context(job_type, params)), cost_class.name)
        except KeyboardInterrupt:
            raise SystemExit(130) from None
        except BaseException as error:  # SystemExit and MemoryError are a job's failure too
            return outcomes.of_exception(error, job_type.retry or Retry(), deadline_came_first=False, cancelled=False)

    def _context(self, job_type: JobType, params: BaseModel) -> JobContext[Any]:
        memory = Memory()
        return JobContext(
            params,
            job_id=UUID(int=0),
            attempt=1,
            limit_seconds=UNLIMITED_SECONDS,
            log=structlog.get_logger(f"{LOGGER}.{job_type.name}"),
            report=self._show,
            once=lambda key, fn: once(memory, key, fn),
            job_retries=job_type.max_attempts > 1,
            artifacts=Artifacts(Folder(self._folder, self._show_file)),
            open_upload=lambda upload_id: open_file(self._uploads, upload_id),
        )

    def _show_file(self, file: Path) -> None:
        self.stderr.write(f"wrote {file}", self.style.NOTICE)

    def _show(self, fraction: float, note: str) -> None:
        self.stderr.write(f"{fraction:6.1%} {note}".rstrip(), self.style.NOTICE)

    def _tell(self, outcome: Outcome) -> int:
        """With the traceback where the cause is in the code; a failure that the handler meant is a sentence."""
        if outcome.error_code in {"handler_error", "bad_result"}:
            self.stderr.write(outcome.detail)
        self.stderr.write(f"{outcome.error_code}: {outcome.error_message}")
        if outcome.error_details is not None:
            self.stderr.write(json.dumps(outcome.error_details, ensure_ascii=False, indent=2))
        return 1


def _uploads(given: list[str]) -> dict[str, Path]:
    files = {}
    for one in given:
        upload_id, _, file = one.partition("=")
        if not upload_ids.is_one(upload_id) or not Path(file).is_file():
            raise CommandError(f"--upload {one}: must be the id of an upload, = and a file that is there.")
        files[upload_id] = Path(file)
    return files


def _read(params: str | None) -> Any:
    if params is None:
        return {}
    try:
        text = sys.stdin.read() if params == "-" else Path(params).read_text()
        return json.loads(text)
    except OSError as error:
        raise CommandError(f"{params} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise CommandError(f"{'Standard input' if params == '-' else params} is not JSON: {error}.") from None
