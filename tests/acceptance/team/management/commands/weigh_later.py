"""What the team's own code does in a transaction: a row of its own, and a job that goes with it."""

import os
import signal
from typing import Any
from uuid import uuid4

from django.core.management.base import BaseCommand, CommandParser
from django.db import transaction

from jobs.submit import InTransaction, submit
from tests.acceptance.team.models import ArchivedLoad, Load
from tests.history.recorder import SUBMISSION


class RolledBack(Exception):
    pass


class Command(BaseCommand):
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("how", choices=["commit", "rollback", "die", "archive"])
        parser.add_argument("mark", help="The label of the job.")

    def handle(self, *args: Any, how: str, mark: str, **options: Any) -> None:
        try:
            with transaction.atomic(using="archive" if how == "archive" else None):
                if how == "die":
                    transaction.on_commit(lambda: os.kill(os.getpid(), signal.SIGKILL))
                table = ArchivedLoad if how == "archive" else Load
                table.objects.create(job_id=uuid4(), kilograms=0)
                submit("team.weigh", {"kilograms": 1}, labels={SUBMISSION: mark}, on_commit=True)
                if how == "rollback":
                    raise RolledBack
        except (RolledBack, InTransaction) as error:
            self.stdout.write(str(error))
