import json
from argparse import ArgumentParser
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db.utils import InterfaceError, OperationalError

from jobs import classes
from jobs.ranges import WrongSetting
from workers.planning.flags import flag
from workers.simulating import flags, recorded, told
from workers.simulating.door import Limits
from workers.simulating.traces import Job, Manner, from_rows, synthetic
from workers.simulating.world import simulate

JOBS = 50_000


class Command(BaseCommand):
    help = (
        "Try limits before they are set: what becomes of a stream of jobs, made up or recorded, by the rules of the door and the order, with clients"
        " that obey Retry-After or do not. Nothing is submitted, and no stack is needed but for --recorded."
    )
    requires_system_checks: list[str] = []  # none of them is about a simulation

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--class", dest="classes", action="append", metavar="name=NAME,…", help=", ".join(flags.OF_A_CLASS)
        )
        parser.add_argument("--load", action="append", metavar="name=NAME,…", help=", ".join(flags.OF_A_LOAD))
        parser.add_argument("--trace", metavar="FILE", help="CSV with at_seconds,client,cost_class,run_seconds,…")
        parser.add_argument("--recorded", action="store_true", help="the jobs that this installation had last")
        parser.add_argument("--jobs", metavar="N", help=f"how many come at most; {JOBS} if left out")
        parser.add_argument("--seed", metavar="N", help="of chance; 1 if left out")
        parser.add_argument("--retries", metavar="HOW", help="what clients do with a refusal: obey, ignore or never")
        parser.add_argument("--pause-seconds", metavar="S", help="after which those that ignore it ask again; 0.1")
        parser.add_argument("--give-up", metavar="N", help="how often one asks at all; 10 if left out")
        parser.add_argument("--format", choices=["text", "json"], default="text")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            report = simulate(*_asked(options, self.stderr.write))
        except WrongSetting as error:
            raise CommandError(str(error)) from None
        except (OperationalError, InterfaceError) as error:
            raise CommandError(
                f"The database, which has the recorded jobs, cannot be asked: {str(error).splitlines()[0]}"
            ) from None
        text = json.dumps(told.as_json(report), indent=2) if options["format"] == "json" else told.as_text(report)
        self.stdout.write(text)


def _asked(options: dict[str, Any], say: Callable[[str], object]) -> tuple[Iterable[Limits], Iterable[Job]]:
    numbers: dict[str, Any] = {
        name: allowed.read(flag(name), options[name])
        for name, allowed in flags.NUMBERS.items()
        if options[name] is not None
    }
    manner = Manner(numbers.get("retries", "obey"), numbers.get("pause_seconds", 0.1), numbers.get("give_up", 10))
    if sum(map(bool, (options["load"], options["trace"], options["recorded"]))) != 1:
        raise CommandError("Say what comes: --load, --trace or --recorded, one of them.")
    names, jobs = _jobs(options, numbers.get("seed", 1), manner, say)
    return _limits(options["classes"] or [], names), islice(jobs, numbers.get("jobs", JOBS))


def _jobs(
    options: dict[str, Any], seed: int, manner: Manner, say: Callable[[str], object]
) -> tuple[set[str], Iterable[Job]]:
    """What comes, and of which classes."""
    if options["load"]:
        loads = [flags.load(raw, manner, _text) for raw in options["load"]]
        if all(load.threads for load in loads):
            raise CommandError("Of the loads one at least needs a rate: threads go on for as long as others come.")
        return {load.cost_class for load in loads}, synthetic(loads, seed)
    jobs = (
        _recorded(manner, say) if options["recorded"] else from_rows(options["trace"], _text(options["trace"]), manner)
    )
    return {job.cost_class for job in jobs}, jobs


def _recorded(manner: Manner, say: Callable[[str], object]) -> list[Job]:
    found = recorded.jobs(manner)
    if found.supposed:
        say(
            f"Of the recorded jobs {found.supposed:,} never ran; each counts as long as its type's runs in the mean, or as it was expected to."
        )
    if found.left_out:
        say(f"Left out: {found.left_out:,} that never ran, of whose type it is not known how long it runs.")
    return found.jobs


def _limits(given: list[str], names: set[str]) -> list[Limits]:
    """Of the classes that jobs come for, in the order of their names."""
    known = {name: _declared(name) for name in classes.declared()}
    for raw in given:
        limits = flags.limits(raw, known)
        known[limits.name] = limits
    for name in sorted(names - known.keys()):
        raise WrongSetting("A job's cost_class", name, f"one of {', '.join(known)}, or given by --class")
    return [known[name] for name in sorted(names)]


def _declared(name: str) -> Limits:
    own = classes.get(name)
    return Limits(
        name, own.processes, own.max_waiting, own.max_wait_seconds, own.backlog_seconds, own.retry_after_seconds
    )


def _text(file: str) -> str:
    try:
        return Path(file).read_text()
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise CommandError(f"{file} is not text in UTF-8.") from None
