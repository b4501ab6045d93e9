"""docs/submitting.md is true: its example runs, and its tests of it pass."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from jobs import registry, submit
from jobs.models import Job, OutboxEntry
from jobs.testing import submitted
from stack.programs import ROOT
from workers.testing.submits import run_at_once

__all__ = ["run_at_once", "submitted"]

pytestmark = pytest.mark.django_db
PAGE = (ROOT / "docs/submitting.md").read_text()
AUTHORS = (ROOT / "docs/authors.md").read_text()


def block(page: str, file: str) -> str:
    found = re.search(rf"```python\n# {re.escape(file)}\n(.*?)```", page, re.DOTALL)
    assert found, f"the page has no {file}"
    return found[1]


@pytest.fixture
def orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The page's module, beside the job type that docs/authors.md writes."""
    monkeypatch.setattr(registry, "_types", dict(registry._types))
    monkeypatch.syspath_prepend(tmp_path)
    for page, file in ((AUTHORS, "my_jobs.py"), (PAGE, "orders.py")):
        (tmp_path / file).write_text(block(page, file))
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    __import__("my_jobs")
    yield __import__("orders")
    for name in ("my_jobs", "orders"):
        sys.modules.pop(name)


def test_it_charges_and_says_what_the_door_said(orders: ModuleType) -> None:
    said = orders.charge("o-1", [100])
    assert said == f"job {Job.objects.get().pk}"
    assert orders.charge("o-1", [100]) == said


@pytest.mark.django_db(transaction=True)
def test_it_pays_and_charges_together(orders: ModuleType) -> None:
    saved: list[bool] = []
    orders.pay(SimpleNamespace(id="o-1", cents=[100], save=lambda: saved.append(True)))
    assert saved == [True]
    assert OutboxEntry.objects.get().job == Job.objects.get()


def _tests() -> list[str]:
    return re.findall(r"^def (test_\w+)", block(PAGE, "test_orders.py"), re.MULTILINE)


@pytest.mark.parametrize("name", _tests())
def test_the_pages_own_tests_pass(orders: ModuleType, name: str, request: pytest.FixtureRequest) -> None:
    written: dict[str, Any] = {}
    exec(block(PAGE, "test_orders.py"), written)
    test = written[name]
    test(*[request.getfixturevalue(fixture) for fixture in test.__code__.co_varnames[: test.__code__.co_argcount]])


@pytest.mark.parametrize("name", [name for name in submit.__all__ if name not in {"Answer", "IN_PROCESS", "submit"}])
def test_the_page_names_what_can_come_of_a_submit(name: str) -> None:
    assert re.search(rf"`{name}\b", PAGE) or name in (submit.submit.__doc__ or "")


def test_the_tests_are_not_none_by_accident() -> None:
    assert len(_tests()) == 4
