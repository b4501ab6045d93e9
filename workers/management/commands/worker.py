import sys
from argparse import ArgumentParser
from typing import Any

from django.core.checks import Tags
from django.core.checks.registry import registry
from django.core.management.base import BaseCommand, CommandError

from jobs import classes
from workers.keeper import Keeper

OF_THE_WEB = {Tags.admin, Tags.security, Tags.staticfiles, Tags.templates, Tags.urls}


class Command(BaseCommand):
    help = "Run one worker node: a keeper, and under it Celery with the class's processes. TERM stops it in order."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("cost_class", help="a declared cost class, or 'control' for the sweeps")

    def execute(self, *args: Any, **options: Any) -> Any:
        """Without the checks of what a worker never serves: they would load the whole API into each."""
        if not options["skip_checks"]:
            registry.registered_checks = {
                check for check in registry.registered_checks if OF_THE_WEB.isdisjoint(check.tags)
            }
        return super().execute(*args, **options)

    def handle(self, *args: Any, cost_class: str, **options: Any) -> None:
        if not sys.platform.startswith("linux"):
            raise CommandError(
                f"A worker runs on Linux only, and this is {sys.platform}: it holds its processes by pidfd, ends them with prctl, and"
                " could promise neither limits nor cancels without."
            )
        known = [*classes.declared(), classes.CONTROL]
        if cost_class not in known:
            raise CommandError(f"There is no class {cost_class!r}; there are {', '.join(known)}.")
        raise SystemExit(Keeper(cost_class).run())
