"""The sweeps: whose turn it is, what each does, and what it leaves alone (P14, P17, P33)."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
import redis
from django.conf import settings as django_settings
from django.db import connection, transaction
from django.db.models.functions import Now
from django.db.utils import ProgrammingError

from jobs import lifecycle, queries, sweeps, wakeups
from jobs.models import Job, Sweep
from tests import job_rows
from tests.clean_slate import forget_queues
from tests.second_connections import Elsewhere, at_once

pytestmark = pytest.mark.django_db


def _ago(seconds: float) -> Any:
    return Now() - timedelta(seconds=seconds)


def _sweep(name: str = "s", interval_seconds: float = 1.0) -> sweeps.Sweep:
    return sweeps.Sweep(name, interval_seconds, lambda: 0)


def _row(name: str = "s") -> Sweep:
    return Sweep.objects.get(pk=name)


def _ran(name: str, seconds_ago: float, steady_for: float = 0.0) -> datetime | None:
    """As if the sweep had run then, without a gap for `steady_for` before now; that instant."""
    Sweep.objects.update_or_create(
        name=name, defaults={"last_run_at": _ago(seconds_ago), "steady_since": _ago(steady_for)}
    )
    return _row(name).steady_since


# ── Turns (P33) ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_sweep_that_never_ran_is_due() -> None:
    assert sweeps.take_turn(_sweep())
    assert _row().last_run_at is not None


def test_a_sweep_that_has_just_run_is_not_due() -> None:
    assert sweeps.take_turn(_sweep(interval_seconds=60))
    before = _row().last_run_at
    assert not sweeps.take_turn(_sweep(interval_seconds=60))
    assert _row().last_run_at == before


@pytest.mark.parametrize(("intervals_ago", "due"), [(0.85, False), (0.95, True)])
def test_a_sweep_is_due_an_interval_after_its_last_run(intervals_ago: float, due: bool) -> None:
    """A tick that comes a hair early counts, or every second one would find nothing to do."""
    _ran("s", intervals_ago * 100)
    assert sweeps.take_turn(_sweep(interval_seconds=100)) is due


@pytest.mark.parametrize(("intervals_ago", "due"), [(2.85, False), (2.95, True)])
def test_a_keeper_takes_a_turn_that_is_two_intervals_overdue(intervals_ago: float, due: bool) -> None:
    _ran("s", intervals_ago * 100)
    assert sweeps.take_turn(_sweep(interval_seconds=100), overdue_intervals=2) is due


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("ran_before", [False, True])
def test_of_several_callers_exactly_one_gets_the_turn(ran_before: bool) -> None:
    for _ in range(20):
        Sweep.objects.all().delete()
        if ran_before:
            _ran("s", 3600)
        turns = at_once(*[lambda: sweeps.take_turn(_sweep(interval_seconds=60))] * 4)
        assert sorted(turns) == [False, False, False, True]


def test_a_sweep_that_fails_does_not_stop_the_others_and_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def fail() -> int:
        ran.append("bad")
        raise ProgrammingError("no such thing")

    def work() -> int:
        ran.append("good")
        return 1

    mine = [sweeps.Sweep("bad", 60, fail), sweeps.Sweep("good", 60, work)]
    monkeypatch.setattr(sweeps, "all_sweeps", lambda: mine)
    sweeps.run_due()
    sweeps.run_due()
    assert ran == ["bad", "good"]
    Sweep.objects.update(last_run_at=_ago(61))
    sweeps.run_due()
    assert ran == ["bad", "good"] * 2


def test_every_sweep_runs_when_it_is_due() -> None:
    sweeps.run_due()
    names = {"expire", "learn", "seal", "reap", "top_up", "unknown_types", "outbox", "prune", "prune_files"}
    assert set(Sweep.objects.values_list("name", flat=True)) == names


# ── Steady time before anything is reaped (P17) ──────────────────────────────────────────────────────────────────────


def _run_reap(settings: Any, lease: float = 30) -> int:
    """Its turn and its work, as run_due() does them; the number reaped."""
    settings.WEIGHBRIDGE_LEASE_SECONDS = lease
    reap = next(sweep for sweep in sweeps.all_sweeps() if sweep.name == "reap")
    assert sweeps.take_turn(reap)
    return reap.run_once()


def _lose_a_lease() -> Job:
    job, _ = job_rows.a_running_job(job_rows.a_node())
    Job.objects.filter(pk=job.pk).update(lease_until=_ago(100))
    return job


def test_the_first_run_reaps_nothing(settings: Any) -> None:
    job = _lose_a_lease()
    assert _run_reap(settings) == 0
    assert job_rows.read(job.pk).state == "running"


def _lease() -> float:
    """A server of the tests may be younger than a lease. One that lasts longer than the job's was lost ago would be given another (P17)."""
    return min(30.0, _server_age() / 2)


def _server_age() -> float:
    with connection.cursor() as cursor:
        cursor.execute("SELECT extract(epoch FROM clock_timestamp() - pg_postmaster_start_time())::float8")
        return float(cursor.fetchone()[0])


@pytest.mark.parametrize(("leases_steady", "reaped"), [(0.9, 0), (1.1, 1)])
def test_a_lost_lease_is_reaped_after_a_whole_lease_of_steady_runs(
    settings: Any, leases_steady: float, reaped: int
) -> None:
    job = _lose_a_lease()
    lease = _lease()
    _ran("reap", 1.5, leases_steady * lease)
    assert _run_reap(settings, lease) == reaped
    job.refresh_from_db()
    assert (job.state, job.lost) == (("queued", 1) if reaped else ("running", 0))


def test_steady_time_goes_on_from_run_to_run(settings: Any) -> None:
    since = _ran("reap", 1.5, _server_age() / 2)
    _run_reap(settings)
    assert _row("reap").steady_since == since


@pytest.mark.parametrize(("gap", "kept"), [(4.5, True), (5.5, False)])
def test_a_gap_of_five_seconds_begins_the_steady_time_anew(settings: Any, gap: float, kept: bool) -> None:
    since = _ran("reap", gap, _server_age() / 2)
    _run_reap(settings)
    now = _row("reap")
    assert (now.steady_since == since) is kept
    assert (now.steady_since == now.last_run_at) or kept


def test_after_a_gap_a_whole_lease_passes_before_anything_is_reaped(settings: Any) -> None:
    job = _lose_a_lease()
    lease = _lease()
    _ran("reap", 6, 1.9 * lease)
    assert _run_reap(settings, lease) == 0
    assert job_rows.read(job.pk).state == "running"


def test_steady_time_from_before_a_start_of_the_database_does_not_count(settings: Any) -> None:
    """The postmaster is younger than the steady time in the row: it began with the postmaster."""
    job = _lose_a_lease()
    age = _server_age()
    _ran("reap", 1.5, steady_for=age + 3600)
    assert _run_reap(settings, lease=age + 60) == 0
    with connection.cursor() as cursor:
        cursor.execute("SELECT steady_since = pg_postmaster_start_time() FROM jobs_sweep WHERE name = 'reap'")
        assert cursor.fetchone()[0]
    assert job_rows.read(job.pk).state == "running"


# ── Top-up (P14) ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _waiting_wakeups(cost_class: str = "light") -> int:
    with redis.Redis.from_url(django_settings.WEIGHBRIDGE_REDIS_URL) as server:
        return int(server.llen(cost_class))


def _queue(count: int, cost_class: str = "light", **fields: Any) -> None:
    for _ in range(count):
        job_rows.a_queued_job(cost_class, **fields)


def test_top_up_sends_exactly_the_missing_wake_ups() -> None:
    job_rows.a_node()
    _queue(5)
    wakeups.publish("light", 2)
    assert sweeps.top_up() == 3
    assert _waiting_wakeups() == 5
    assert sweeps.top_up() == 0
    assert _waiting_wakeups() == 5


def test_top_up_leaves_a_surplus_alone() -> None:
    job_rows.a_node()
    _queue(1)
    wakeups.publish("light", 3)
    assert sweeps.top_up() == 0
    assert _waiting_wakeups() == 3


def test_what_a_node_could_start_are_jobs_of_types_that_it_knows() -> None:
    """Beside others, which a newer node knows, it has not stopped consuming (P24)."""
    job_rows.a_queued_job()
    job_rows.a_queued_job(type="tests.newer")
    assert queries.claimable("light") == 2
    assert queries.claimable("light", [job_rows.TYPE]) == 1
    assert queries.claimable("light", ["tests.older"]) == 0


def test_after_a_flush_every_claimable_job_has_its_wake_up_again() -> None:
    job_rows.a_node()
    _queue(4)
    sweeps.top_up()
    forget_queues()
    assert _waiting_wakeups() == 0
    assert sweeps.top_up() == 4
    assert _waiting_wakeups() == 4


def test_only_jobs_that_could_start_now_are_woken() -> None:
    node = job_rows.a_node()
    job_rows.a_running_job(node)
    _queue(1, available_at=Now() + timedelta(minutes=1))
    _queue(1, start_by=_ago(0.001))
    _queue(1, start_by=Now() + timedelta(minutes=1))
    assert sweeps.top_up() == 1


def test_each_class_is_topped_up_by_itself() -> None:
    job_rows.a_node("light")
    job_rows.a_node("heavy")
    _queue(2, "light")
    _queue(3, "heavy")
    assert sweeps.top_up() == 5
    assert (_waiting_wakeups("light"), _waiting_wakeups("heavy")) == (2, 3)


def test_a_class_without_a_live_slot_gets_no_wake_ups_until_it_has_one() -> None:
    _queue(3)
    assert sweeps.top_up() == 0
    assert _waiting_wakeups() == 0
    job_rows.a_node()
    assert sweeps.top_up() == 3


def test_top_up_stops_at_its_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sweeps.TOP_UP_CAP == 500
    monkeypatch.setattr(sweeps, "TOP_UP_CAP", 4)
    job_rows.a_node()
    _queue(6)
    assert sweeps.top_up() == 4
    assert sweeps.top_up() == 0
    assert _waiting_wakeups() == 4


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("sweep", ["reap", "prune"])
def test_a_row_that_somebody_holds_keeps_no_sweep_waiting(sweep: str, other: Elsewhere, settings: Any) -> None:
    """An operator's open transaction, say. The rest is done, and that row when it is free."""
    settings.WEIGHBRIDGE_KEEP_JOBS_SECONDS = 1
    if sweep == "reap":
        node = job_rows.a_node()
        held, _ = (job_rows.a_running_job(node)[0] for _ in range(2))
        Job.objects.update(lease_until=job_rows.later(-1))
    else:
        held = job_rows.a_finished_job(finished_at=job_rows.later(-60))
    run: Callable[[], int] = lambda: lifecycle.reap() if sweep == "reap" else sweeps.prune()  # noqa: E731
    with transaction.atomic():
        Job.objects.select_for_update().get(pk=held.pk)
        assert other.run(run, within_seconds=5) == (1 if sweep == "reap" else 0)
    assert other.run(run) == 1


@pytest.mark.parametrize(
    ("seen_ago", "over_since", "reaped"), [(0.0, 1, 0), (0.0, 31, 1), (3.5, 1, 1)], ids=["beats", "too long", "silent"]
)
def test_a_lease_that_a_living_keeper_could_not_renew_is_not_yet_lost(
    seen_ago: float, over_since: float, reaped: int
) -> None:
    """Somebody holds the row; when it is free, the keeper renews, or the child settles."""
    node = job_rows.a_node(seen_at=job_rows.later(-seen_ago))
    job_rows.a_running_job(node)
    Job.objects.update(lease_until=job_rows.later(-over_since))
    assert lifecycle.reap(queries.beat(), timedelta(seconds=30)) == reaped
