import json
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db.utils import InterfaceError, OperationalError

from jobs.ranges import WrongSetting
from workers.by_hand import Refused
from workers.planning import flags, measuring, told
from workers.planning.composing import Composed, Contradiction, composed, together
from workers.planning.measuring import Unmeasured

_OF_MEASURE = ("params", "upload", "seconds", "limit_seconds", "up_to")
_OF_A_PLAN = (
    *("cost_class", "rate", "service_seconds", "run_times", "slots", "max_waiting", "wait_target", "refusal_target"),
    *("memory_mib", "machine_memory_mib", "cores", "chart"),
)


class Command(BaseCommand):
    help = (
        "How many processes a class needs, how many jobs may wait, and what its callers meet then. From the numbers given, and for those left"
        " out from the class's own jobs; without any, a plan for each class. With --measure: whether a job type pays in threads or in processes."
    )
    requires_system_checks: list[str] = []  # none of them is about a plan

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--cost-class", metavar="NAME", help="whose own jobs give the numbers that are left out")
        parser.add_argument("--rate", metavar="N", help="jobs that arrive a second")
        parser.add_argument("--service-seconds", metavar="S", help="how long one runs, in the mean")
        parser.add_argument(
            "--run-times", metavar="FILE", help="how long jobs ran, in seconds, one a line; in place of their mean"
        )
        parser.add_argument("--slots", metavar="N", help="worker processes; found if left out")
        parser.add_argument("--max-waiting", metavar="N", help="jobs that may wait; found if left out")
        parser.add_argument(
            "--wait-target",
            metavar="S",
            help="within which even the last that waits starts, with probability 0.95; a class's own max_wait_seconds if left out",
        )
        parser.add_argument("--refusal-target", metavar="SHARE", help="most that may be refused; 0.01 if left out")
        parser.add_argument("--memory-mib", metavar="MIB", help="what one job's process takes at its peak")
        parser.add_argument("--machine-memory-mib", metavar="MIB", help="what the machine has; this one's if left out")
        parser.add_argument("--cores", metavar="N", help="of the machine; this one's if left out")
        parser.add_argument("--format", choices=["text", "json"], default="text")
        parser.add_argument("--chart", metavar="FILE", type=Path, help="draw refusals and waits over the rate, as PNG")
        parser.add_argument("--measure", metavar="TYPE", help="run this job type in 1 to n threads, and processes")
        parser.add_argument("--params", metavar="FILE", help="of --measure: a JSON file; {} if left out")
        parser.add_argument("--upload", action="append", metavar="ID=FILE", help="of --measure: as of manage.py run")
        parser.add_argument("--seconds", metavar="S", help="of --measure: how long each number is tried; 3 if left out")
        parser.add_argument("--limit-seconds", metavar="S", help="of --measure: longest for one number; 120")
        parser.add_argument("--up-to", metavar="N", help="of --measure: most threads, and processes; the cores")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            numbers = flags.read(options)
            if options["measure"] is not None:
                self._refuse(options, _OF_A_PLAN, "--measure takes no")
                self._measure(options, numbers)
            else:
                self._refuse(options, _OF_MEASURE, "Only --measure takes")
                self._plan(options, numbers)
        except (WrongSetting, Contradiction, Refused, Unmeasured) as error:
            raise CommandError(str(error)) from None
        except (OperationalError, InterfaceError) as error:
            raise CommandError(
                f"The database, which has the class's own jobs, cannot be asked: {str(error).splitlines()[0]}\nWith --rate and"
                f" --service-seconds no database is needed. A stack's is found by its data directory, here {settings.WEIGHBRIDGE_DATA_DIR}."
            ) from None

    def _refuse(self, options: dict[str, Any], names: Sequence[str], why: str) -> None:
        given = [flags.flag(name) for name in names if options[name] is not None]
        if given:
            raise CommandError(f"{why} {', '.join(given)}.")

    # ── Plans ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _plan(self, options: dict[str, Any], numbers: dict[str, Any]) -> None:
        if options["run_times"] is not None:
            file = options["run_times"]
            numbers["run_times"] = flags.run_times(file, _text(file))
        plans = composed(options["cost_class"], numbers)
        if options["chart"] is not None:
            self._draw(plans, options["chart"])
        if options["format"] == "json":
            self.stdout.write(json.dumps(_as_json(plans, numbers), indent=2))
        else:
            self.stdout.write("\n\n".join([*map(_as_text, plans), *together(plans, numbers)]))

    def _draw(self, plans: Sequence[Composed], file: Path) -> None:
        (first, *others) = plans
        if others or first.plan is None:
            raise CommandError("--chart draws one plan: say --cost-class, or --rate and --service-seconds.")
        from workers.planning.chart import draw

        try:
            draw(
                first.plan,
                file,
                f"{first.title}: {first.plan.size.slots} processes, {first.plan.size.max_waiting} waiting",
            )
        except OSError as error:
            raise CommandError(f"--chart {file} cannot be written: {error.strerror}.") from None
        self.stderr.write(f"wrote {file}", self.style.NOTICE)

    # ── Measuring ────────────────────────────────────────────────────────────────────────────────────────────────

    def _measure(self, options: dict[str, Any], numbers: dict[str, Any]) -> None:
        params = {} if options["params"] is None else _json(options["params"])
        measured = measuring.measure(options["measure"], params, options["upload"] or [], numbers, self._show)
        if options["format"] == "json":
            self.stdout.write(json.dumps(measured.as_json(), indent=2))
        else:
            self.stdout.write(measured.as_text())

    def _show(self, line: str) -> None:
        self.stderr.write(line, self.style.NOTICE)


def _as_text(one: Composed) -> str:
    lines = [one.title, *(f"  {sentence}" for sentence in one.sources)]
    return "\n".join([*lines, *(["", told.as_text(one.plan)] if one.plan else [])])


def _as_json(plans: Sequence[Composed], numbers: dict[str, Any]) -> dict[str, Any]:
    """One plan is flat; several are by class."""
    if len(plans) == 1:
        return _one_as_json(plans[0])
    return {
        "classes": {str(one.cost_class): _one_as_json(one) for one in plans},
        "together": together(plans, numbers),
    }


def _one_as_json(one: Composed) -> dict[str, Any]:
    figures = {} if one.plan is None else told.as_json(one.plan)
    return {**figures, "cost_class": one.cost_class, "sources": list(one.sources)}


def _json(file: str) -> Any:
    try:
        return json.loads(_text(file))
    except ValueError as error:
        raise CommandError(f"{file} is not JSON: {error}.") from None


def _text(file: str) -> str:
    try:
        return Path(file).read_text()
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise CommandError(f"{file} is not text in UTF-8.") from None
