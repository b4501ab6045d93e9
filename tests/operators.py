"""What an operator changes, as tests need it."""

from typing import Any

from django.test import TestCase

from jobs.control import changing
from jobs.control.changing import Operator
from jobs.models import ControlChange

BY = Operator("command", "tests")


def change(kind: str, name: str, **wanted: Any) -> list[ControlChange]:
    """Changed, and, within a test's own transaction, as if it had been committed."""
    with TestCase.captureOnCommitCallbacks(execute=True):
        return changing.CHANGE[kind](name, wanted, BY)
