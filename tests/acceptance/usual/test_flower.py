"""Flower: behind its password, it shows what ran as job type and id."""

from collections.abc import Iterator

import httpx
import pytest

from stack.local import Stack
from tests.acceptance.diary import Diary
from tests.api_client import Api
from tests.waiting import eventually


@pytest.fixture
def flower(stack: Stack) -> Iterator[httpx.Client]:
    """A caller without the password."""
    with httpx.Client(base_url=f"http://127.0.0.1:{stack.flower_port}", timeout=10, trust_env=False) as caller:
        eventually(lambda: _answers(caller), 30)
        yield caller


def _answers(caller: httpx.Client) -> bool:
    try:
        return caller.get("/healthcheck").status_code == 200
    except httpx.TransportError:
        return False


def password_of(stack: Stack) -> tuple[str, str]:
    return ("admin", (stack.data_dir / "flower-password").read_text().strip())


@pytest.mark.parametrize("page", ["/", "/tasks", "/workers", "/api/tasks", "/api/workers"])
def test_flower_shows_nothing_without_the_password(flower: httpx.Client, page: str) -> None:
    assert flower.get(page).status_code == 401
    assert flower.get(page, auth=("admin", "a guess")).status_code == 401


def test_flower_shows_each_jobs_type_and_id_on_its_row(
    stack: Stack, api: Api, flower: httpx.Client, diary: Diary
) -> None:
    job_id = api.submit("tests.note", diary.params("shown", cost_class="heavy"))
    api.ended(job_id)
    row = eventually(lambda: _row_of(job_id, flower, password_of(stack)))
    assert row["name"] == "tests.note"
    assert row["state"] == "SUCCESS"
    assert str(diary.history.path) not in str(row), "params are nobody else's business"


def test_a_job_that_is_cancelled_as_it_runs_is_no_failed_task(
    stack: Stack, api: Api, flower: httpx.Client, diary: Diary
) -> None:
    """Its process leaves, but only after it has said that the task is done."""
    job_id = api.submit("tests.note", diary.params("cancelled", held=True, cost_class="heavy"))
    api.in_state(job_id, "running")
    api.cancel(job_id)
    assert api.ended(job_id)["state"] == "cancelled"
    assert eventually(lambda: _row_of(job_id, flower, password_of(stack)))


def _row_of(job_id: str, flower: httpx.Client, auth: tuple[str, str]) -> dict[str, object]:
    rows = flower.get("/api/tasks", auth=auth, params={"limit": 1000}).json().values()
    return next((row for row in rows if job_id in str(row["kwargs"]) and row["state"] == "SUCCESS"), {})
