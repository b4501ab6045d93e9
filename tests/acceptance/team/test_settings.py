"""A team's own settings module: a third class, an own model, a second database, an own job type."""

import signal

import psycopg
import pytest

from stack.local import Stack
from tests.acceptance.bursts import ids_of, refusals_of, submit_at_once
from tests.acceptance.diary import Diary
from tests.acceptance.team.commands import manage
from tests.acceptance.team.conftest import SLOTS
from tests.api_client import Api
from tests.history.recorder import SUBMISSION
from tests.waiting import eventually


@pytest.mark.parametrize(
    "command",
    [("check",), ("makemigrations", "--check", "--dry-run"), ("migrate", "--check"), ("demo_access",)],
    ids=lambda command: command[0],
)
def test_every_command_works_with_the_teams_settings(stack: Stack, command: tuple[str, ...]) -> None:
    done = manage(stack, *command)
    assert done.returncode == 0, done.stdout + done.stderr
    with Api(stack.url, stack.key) as api:
        assert api.cost_class("scales")["slots"] == SLOTS


def test_the_third_class_is_one_entry_and_its_variables_work(stack: Stack, api: Api) -> None:
    assert "worker-scales" in stack.programs()
    shown = api.cost_class("scales")
    assert (shown["slots"], shown["max_waiting"], shown["accepting"]) == (SLOTS, 0, True)


def test_a_handler_uses_the_teams_models_in_both_databases(stack: Stack, api: Api) -> None:
    first = api.ended(api.submit("team.weigh", {"kilograms": 10.5}))
    second = api.ended(api.submit("team.weigh", {"kilograms": 2}))
    assert [job["result"] for job in (first, second)] == [{"total": 10.5}, {"total": 12.5}]
    weighed = [(first["id"], 10.5), (second["id"], 2.0)]
    assert _rows(stack.database_url, "team_load") == weighed
    assert _rows(_archive_of(stack), "team_archivedload") == weighed


def _archive_of(stack: Stack) -> str:
    return stack.database_url.rpartition("/")[0] + "/archive"


def _rows(database_url: str, table: str) -> list[tuple[str, float]]:
    with psycopg.connect(database_url) as connection:
        return connection.execute(f"SELECT job_id::text, kilograms FROM {table} ORDER BY job_id").fetchall()


def test_a_class_without_a_waiting_room_takes_exactly_what_can_start(stack: Stack, api: Api, diary: Diary) -> None:
    burst = submit_at_once(stack, diary, [diary.params(f"n{i}", cost_class="scales", held=True) for i in range(8)])
    accepted, refused = ids_of(burst), refusals_of(burst)
    assert (len(accepted), len(refused)) == (SLOTS, 8 - SLOTS)
    eventually(lambda: len(diary.began()) == SLOTS)
    diary.open_gate()
    assert {api.ended(job_id)["state"] for job_id in accepted} == {"succeeded"}
    assert diary.most_at_once() == SLOTS


def test_without_a_waiting_room_each_process_that_comes_free_admits_one(api: Api, diary: Diary) -> None:
    held_longer = Diary(diary.history, gate_name="longer")
    first = api.submit("tests.note", diary.params("first", cost_class="scales", held=True))
    others = [api.submit("tests.note", held_longer.params("second", cost_class="scales", held=True))]
    assert api.post("tests.note", held_longer.params("refused", cost_class="scales")).status_code == 503

    diary.open_gate()
    api.ended(first)
    others.append(api.submit("tests.note", held_longer.params("third", cost_class="scales", held=True)))
    assert api.post("tests.note", held_longer.params("refused-too", cost_class="scales")).status_code == 503

    held_longer.open_gate()
    assert {api.ended(job_id)["state"] for job_id in others} == {"succeeded"}
    assert diary.began() == ["first", "second", "third"]


# ── The team's own code submits ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("how", "exits"), [("commit", 0), ("die", -signal.SIGKILL)])
def test_a_job_of_the_teams_transaction_runs_once_that_is_committed(stack: Stack, how: str, exits: int) -> None:
    """By the process that committed; and by the sweep, when that process is killed between the commit and what follows it."""
    assert manage(stack, "weigh_later", how, how).returncode == exits
    assert eventually(lambda: _ends(stack, how), 20) == ["succeeded"]
    assert _entries(stack) == {"admitted"}


def test_a_transaction_that_is_rolled_back_leaves_neither_row_nor_job(stack: Stack) -> None:
    before = len(_rows(stack.database_url, "team_load"))
    done = manage(stack, "weigh_later", "rollback", "rollback")
    assert done.returncode == 0, done.stderr
    assert len(_rows(stack.database_url, "team_load")) == before
    assert _states(stack, "rollback") == []
    assert _entries(stack) <= {"admitted"}


def test_a_transaction_of_the_second_database_is_told_that_nothing_goes_with_it(stack: Stack) -> None:
    before = len(_rows(_archive_of(stack), "team_archivedload"))
    done = manage(stack, "weigh_later", "archive", "archive")
    assert done.returncode == 0, done.stderr
    assert "'archive'" in done.stdout
    assert len(_rows(_archive_of(stack), "team_archivedload")) == before
    assert _states(stack, "archive") == []


def test_a_full_class_takes_the_job_when_it_has_room(stack: Stack, api: Api, diary: Diary) -> None:
    """Without a waiting room it has none while both processes work."""
    held = [api.submit("tests.note", diary.params(f"h{i}", cost_class="scales", held=True)) for i in range(SLOTS)]
    assert manage(stack, "weigh_later", "commit", "full").returncode == 0
    assert (_states(stack, "full"), _entries(stack)) == ([], {"admitted", "waiting"})
    diary.open_gate()
    for job_id in held:
        api.ended(job_id)
    assert eventually(lambda: _ends(stack, "full"), 40) == ["succeeded"]
    assert _entries(stack) == {"admitted"}


def _ends(stack: Stack, mark: str) -> list[str]:
    """The states of the jobs with that label, once none of them is live."""
    states = _states(stack, mark)
    return [] if {"queued", "running"} & set(states) else states


def _states(stack: Stack, mark: str) -> list[str]:
    with psycopg.connect(stack.database_url) as connection:
        found = connection.execute("SELECT state FROM jobs_job WHERE labels->>%s = %s", [SUBMISSION, mark])
        return [str(state) for (state,) in found]


def _entries(stack: Stack) -> set[str]:
    with psycopg.connect(stack.database_url) as connection:
        return {str(state) for (state,) in connection.execute("SELECT state FROM jobs_outboxentry")}
