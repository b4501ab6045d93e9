"""What is paused is not claimed, keeps its place, and starts when it is resumed (P2, P13, P14)."""

import threading
import time

import pytest
from django.db import connection, transaction
from pydantic import BaseModel

from jobs import lifecycle, queries, registry, sweeps, waits, wakeups
from jobs.control import changing
from jobs.models import ApiClient, Job, LimitKey, WorkerNode
from jobs.registry import JobType
from jobs.states import State
from tests import job_rows
from tests.clean_slate import forget_queues
from tests.operators import BY, change
from tests.second_connections import Elsewhere, waits_for_a_lock
from tests.submissions import submit, verdict
from tests.waiting import eventually

pytestmark = pytest.mark.django_db
two_connections = pytest.mark.django_db(transaction=True)

# Kind, name, and the switch that holds a job of the tests'.
HOLDS = [("class", "light", "paused"), ("type", job_rows.TYPE, "paused"), ("client", "tests", "suspended")]


@pytest.fixture(autouse=True)
def known_types(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator names types that this installation has."""
    known = {name: JobType(name, lambda ctx: None, BaseModel, "light") for name in (job_rows.TYPE, "tests.paused")}
    monkeypatch.setattr(registry, "_types", {**registry._types, **known})


@pytest.fixture
def job(node: WorkerNode) -> Job:
    return job_rows.a_queued_job()


@pytest.mark.parametrize(("kind", "name", "switch"), HOLDS)
def test_what_is_paused_is_not_claimed_until_it_is_resumed(
    job: Job, node: WorkerNode, kind: str, name: str, switch: str
) -> None:
    change(kind, name, **{switch: True})
    assert job_rows.claim(node) is None
    assert queries.claimable("light") == queries.claimable("light", [job_rows.TYPE]) == 0
    change(kind, name, **{switch: False})
    assert queries.claimable("light") == queries.claimable("light", [job_rows.TYPE]) == 1
    claimed = job_rows.claim(node)
    assert claimed is not None and claimed.job_id == job.pk


@pytest.mark.parametrize(("kind", "name", "switch"), HOLDS)
@pytest.mark.parametrize("limited", [False, True])
def test_what_is_not_paused_goes_past_it(
    job: Job, node: WorkerNode, kind: str, name: str, switch: str, limited: bool
) -> None:
    """Of another class, another type or another client; also where limits are looked at."""
    if limited:
        LimitKey.objects.create(pattern="licence", maximum=1)
        job_rows.a_queued_job("heavy", limit_keys=["licence"])
        job_rows.a_queued_job("light", limit_keys=["licence"], type="tests.unknown")
    others = job_rows.a_node("heavy")
    change(kind, name, **{switch: True})
    other = job_rows.a_queued_job("heavy" if kind == "class" else "light", type="tests.other")
    if kind == "client":
        Job.objects.filter(pk=other.pk).update(client=job_rows.a_client("another"))
    by = others if kind == "class" else node
    claimed = job_rows.claim(
        by, by.cost_class, ("tests.other",) if kind != "client" else (job_rows.TYPE, "tests.other")
    )
    assert claimed is not None and claimed.job_id == other.pk
    assert job_rows.claim(node) is None


def test_a_paused_job_keeps_its_place(node: WorkerNode) -> None:
    first = job_rows.a_queued_job(type="tests.paused")
    second = job_rows.a_queued_job()
    change("type", "tests.paused", paused=True)
    claimed = job_rows.claim(node, types=(job_rows.TYPE, "tests.paused"))
    assert claimed is not None and claimed.job_id == second.pk
    third = job_rows.a_queued_job()
    change("type", "tests.paused", paused=False)
    order = [job_rows.claim(node, types=(job_rows.TYPE, "tests.paused")) for _ in range(2)]
    assert [one and one.job_id for one in order] == [first.pk, third.pk]


def test_a_paused_class_still_counts_what_waits_and_fills(node: WorkerNode) -> None:
    change("class", "light", paused=True)
    assert [verdict(submit(max_waiting=1)) for _ in range(node.processes + 2)] == [*["admitted"] * 3, "queue_full"]


def test_paused_jobs_expire_in_their_time(node: WorkerNode) -> None:
    job = job_rows.a_queued_job(start_by=job_rows.later(-1))
    change("class", "light", paused=True)
    assert sweeps.expire() == 1
    assert job_rows.read(job.pk).state == State.EXPIRED


def test_a_running_job_goes_on_and_settles(node: WorkerNode) -> None:
    job, claimed = job_rows.a_running_job(node)
    for kind, name, switch in HOLDS:
        change(kind, name, **{switch: True})
    assert job_rows.succeed(claimed) == State.SUCCEEDED
    assert job_rows.read(job.pk).state == State.SUCCEEDED


@pytest.mark.parametrize(("kind", "name", "switch"), HOLDS)
def test_nothing_is_woken_while_it_is_paused_and_all_of_it_when_it_is_resumed(
    node: WorkerNode, kind: str, name: str, switch: str
) -> None:
    for _ in range(3):
        job_rows.a_queued_job()
    change(kind, name, **{switch: True})
    forget_queues()
    assert sweeps.top_up() == 0
    assert wakeups.queue_length("light") == 0
    change(kind, name, **{switch: False})
    assert wakeups.queue_length("light") == 3


def test_a_job_that_is_accepted_paused_is_not_woken(node: WorkerNode) -> None:
    change("class", "light", paused=True)
    forget_queues()
    assert verdict(submit()) == "admitted"
    assert wakeups.queue_length("light") == 0


@pytest.mark.parametrize(("kind", "name", "switch"), HOLDS)
def test_a_paused_job_says_what_holds_it_and_tells_no_time(
    job: Job, node: WorkerNode, kind: str, name: str, switch: str
) -> None:
    assert (found := waits.of(job)) is not None and found.held_by is None
    change(kind, name, **{switch: True})
    place = waits.of(job_rows.read(job.pk))
    assert place is not None
    assert (place.position, place.held_by, place.starts_at, place.starts_p95_at) == (1, "paused", None, None)


# ── Races ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@two_connections
def test_no_claim_begins_a_job_after_a_pause_was_answered(other: Elsewhere) -> None:
    """One connection claims without rest; each call says when it began. Every pause is hit while jobs are there and claims go on."""
    node = job_rows.a_node()
    calls: list[tuple[float, bool]] = []
    stop = threading.Event()

    def claim_on() -> None:
        while not stop.is_set():
            began = time.monotonic()
            calls.append((began, job_rows.claim(node) is not None))

    for _ in range(400):
        job_rows.a_queued_job()
    claiming = other.start(claim_on)
    paused: list[tuple[float, float]] = []
    hit = 0
    for turn in range(6):
        before = sum(got for _, got in calls)
        eventually(lambda before=before: sum(got for _, got in calls) >= before + 5)  # type: ignore[misc]
        kind, name, switch = HOLDS[turn % 3]
        changing.CHANGE[kind](name, {switch: True}, BY)
        answered = time.monotonic()
        seen = len(calls)
        eventually(lambda seen=seen: len(calls) >= seen + 10)  # type: ignore[misc]
        resumed = time.monotonic()
        changing.CHANGE[kind](name, {switch: False}, BY)
        paused.append((answered, resumed))
        hit += 1
    stop.set()
    claiming.result(20)
    wrong = [began for began, got in calls if got and any(first <= began < last for first, last in paused)]
    print(f"{len(calls)} claims, {sum(got for _, got in calls)} with a job, {hit} pauses")
    assert wrong == []
    assert hit == 6
    assert Job.objects.filter(state="queued").exists(), "there was something to claim all the time"


@two_connections
@pytest.mark.parametrize(("kind", "name", "switch"), HOLDS)
def test_a_claim_that_waits_for_the_limits_lock_sees_a_pause_of_meanwhile(
    other: Elsewhere, kind: str, name: str, switch: str
) -> None:
    node = job_rows.a_node()
    LimitKey.objects.create(pattern="licence", maximum=1)
    job = job_rows.a_queued_job(limit_keys=["licence"])
    pid = other.backend_pid()
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended('limits', 0))")
        waiting = other.start(lambda: job_rows.claim(node))
        eventually(lambda: waits_for_a_lock(pid))
        changing.CHANGE[kind](name, {switch: True}, BY)
    assert waiting.result(20) is None
    assert job_rows.read(job.pk).state == State.QUEUED


def test_suspended_clients_are_no_rows_of_the_claims_of_others(node: WorkerNode) -> None:
    """One index holds them: a claim reads as many rows as there are suspended clients, not as there are clients."""
    ApiClient.objects.bulk_create(ApiClient(name=f"c{number}") for number in range(2000))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE jobs_apiclient")
        cursor.execute("EXPLAIN SELECT client.id FROM jobs_apiclient client WHERE client.suspended_at IS NOT NULL")
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "client_suspended" in plan
    assert lifecycle.claim(job_rows.a_claimant(node), "light", [job_rows.TYPE], 30, 5) is None
