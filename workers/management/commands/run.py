import json
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from pydantic import BaseModel

from jobs.classes import CostClass
from jobs.lifecycle import Outcome
from jobs.registry import JobType
from jobs.states import State
from workers import by_hand, outcomes, runner
from workers.artifacts import Artifacts, Folder
from workers.by_hand import Refused
from workers.context import JobContext
from workers.retries import Retry


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
        self._folder: Path | None = options["artifacts"]
        try:
            self._uploads = by_hand.uploads_of(options["upload"])
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
        files = Artifacts(Folder(self._folder, self._show_file))
        return by_hand.context_of(job_type, params, report=self._show, artifacts=files, uploads=self._uploads)

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
