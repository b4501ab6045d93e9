"""Pausing, draining and resuming classes, job types and clients, and overriding limits, while everything runs."""

import getpass
import logging
import os
import sys
from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.utils import InterfaceError, OperationalError

from jobs.classes import LIVE_LIMITS
from jobs.control import changing, told
from jobs.control.changing import SWITCHES, Operator, UnknownSubject, WrongControl
from jobs.control.told import Setting
from jobs.models import ControlChange
from jobs.row_locks import RowHeld

DEFAULT = "default"  # what a limit is set to that is to be again what the settings say
LOG_LINES = 20
# What is said of each kind, and the switch that it turns on; `resume` turns all of a kind off.
VERBS = {
    "class": {"pause": "paused", "drain": "draining"},
    "type": {"pause": "paused", "refuse": "refused"},
    "client": {"suspend": "suspended"},
}


class Command(BaseCommand):
    help = "Pause, drain or resume a class, override its limits; pause, refuse or resume a job type; suspend or resume a client; see what stands."

    def add_arguments(self, parser: CommandParser) -> None:
        what = parser.add_subparsers(dest="what", metavar="class|type|client|list|log", required=True)
        for kind, verbs in VERBS.items():
            of_kind = what.add_parser(kind, help=f"{', '.join(verbs)} or resume a {kind}.")
            of_kind.add_argument("name", help=f"The {kind}'s name.")
            verb = of_kind.add_subparsers(dest="verb", metavar="|".join((*verbs, "resume")), required=True)
            for name in (*verbs, "resume"):
                _recorded(verb.add_parser(name))
            if kind == "class":
                limits = verb.add_parser("set", help=f"Override limits: {', '.join(LIVE_LIMITS)}.")
                limits.add_argument(
                    "limits", nargs="+", metavar="LIMIT=VALUE", help=f"={DEFAULT} takes an override back."
                )
                _recorded(limits)
        what.add_parser("list", help="What stands: of each class, and of types and clients that are held back.")
        what.add_parser("log", help=f"The newest {LOG_LINES} changes.")

    def handle(self, *args: Any, **options: Any) -> None:
        logging.getLogger("jobs.control").setLevel(logging.WARNING)  # the command says itself what was changed
        try:
            self._do(**options)
            self.stdout.flush()
        except BrokenPipeError:  # whoever read it has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except (UnknownSubject, WrongControl) as error:
            raise CommandError(str(error)) from None
        except RowHeld:
            raise CommandError("Somebody else is changing it just now; nothing was done.") from None
        except (OperationalError, InterfaceError) as error:
            hint = f"Does a stack run on the data directory {settings.WEIGHBRIDGE_DATA_DIR}? Your own server is found by DATABASE_URL."
            raise CommandError(f"The database cannot be asked: {str(error).splitlines()[0]}\n{hint}") from None

    def _do(self, what: str, **options: Any) -> None:
        if what == "list":
            self._list()
        elif what == "log":
            self._log()
        else:
            self._change(what, **options)

    def _change(self, kind: str, name: str, verb: str, why: str, limits: Iterable[str] = (), **others: Any) -> None:
        changes = changing.CHANGE[kind](name, _wanted(kind, verb, limits), Operator("command", getpass.getuser(), why))
        for one in changes:
            self.stdout.write(_line(one))
        if not changes:
            self.stdout.write("It was so already; nothing was changed.")

    def _list(self) -> None:
        for subject in told.everything():
            for one in subject.settings:
                self.stdout.write(f"{subject.kind}\t{subject.name}\t{one.field}\t{_value(one.value)}\t{_source(one)}")

    def _log(self) -> None:
        for one in ControlChange.objects.order_by("-id")[:LOG_LINES]:
            self.stdout.write(f"{one.changed_at:%Y-%m-%d %H:%M:%S}Z\t{_line(one)}\t{one.changed_by}\t{one.why}")


def _recorded(parser: Any) -> None:
    parser.add_argument("--why", default="", help="In your own words, for the record.")


def _wanted(kind: str, verb: str, limits: Iterable[str]) -> dict[str, Any]:
    if verb == "resume":
        return dict.fromkeys(SWITCHES[kind], False)
    if verb == "set":
        return dict(_limit(each) for each in limits)
    return {VERBS[kind][verb]: True}


def _limit(given: str) -> tuple[str, str | None]:
    field, equals, value = given.partition("=")
    if not equals or field not in LIVE_LIMITS:
        raise WrongControl(
            field, f"{given!r} sets nothing; say one of {', '.join(f'{name}=VALUE' for name in LIVE_LIMITS)}."
        )
    return field, None if value == DEFAULT else value


def _line(one: ControlChange) -> str:
    return f"{one.kind} {one.name}: {one.field} {_value(one.before)} → {_value(one.after)}"


def _value(value: Any) -> str:
    if value is None:
        return DEFAULT
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else f"{value:g}"


def _source(one: Setting) -> str:
    if one.source != "operator" or one.last is None:
        return one.source
    why = f": {one.last.why}" if one.last.why else ""
    return f"by {one.last.changed_by} at {one.last.changed_at:%Y-%m-%d %H:%M}Z, else {_value(one.declared)}{why}"
