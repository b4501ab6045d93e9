"""Tidying that runs on a clock. Each sweep is idempotent and safe with two beats (P33).

A turn is taken by a compare-and-set on the sweep's row, by the database's clock: whoever moves
`last_run_at` runs it, everybody else sees that it is not due. So beat, a second beat and every keeper
may all call `run_due()`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import structlog
from django.conf import settings
from django.db import connection, transaction
from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Now

from jobs import batches, classes, costs, lifecycle, queries, wakeups
from jobs.files import artifacts, uploads
from jobs.models import (
    Artifact,
    Batch,
    BatchItem,
    ClassMinute,
    FairClock,
    FairDebt,
    FairShare,
    FlowShare,
    IdempotencyKey,
    Job,
    OutboxEntry,
    WorkerNode,
)
from jobs.row_locks import RowHeld, not_waiting
from jobs.states import LIVE, State
from jobs.submit import outbox

log = structlog.get_logger(__name__)

TOP_UP_CAP = 500  # wake-ups in a queue; more would only be no-ops later (P14)
PRUNE_BATCH = 1_000  # rows per statement, so that no lock is held for long
PRUNE_BATCHES_AT_ONCE = 100  # each lets go of up to a hundred jobs
PRUNE_SECONDS = 60.0
PRUNE_BATCHES = 20  # per run: 20,000 rows a minute
LEARN_SECONDS = 5.0  # a hundred runs make a measure; none of them is in a hurry
UNKNOWN_TYPES_SECONDS = 5.0  # it acts on what has been so for a minute
SHARES_SECONDS = 3_600.0  # a client or flow that has brought nothing for so long is gone, or comes anew
NODE_LEASES = 10  # a node that has not been seen for so many leases has nothing left to come back for
NODE_SECONDS = 3_600.0  # and operators look for one that vanished within the hour
STEADY_GAP_SECONDS = 5.0  # a reaper that did not run for this long knows nothing about the leases (P17)


@dataclass(frozen=True)
class Sweep:
    name: str
    interval_seconds: float
    run_once: Callable[[], int]


def all_sweeps() -> list[Sweep]:
    every = settings.WEIGHBRIDGE_SWEEP_SECONDS
    return [
        Sweep("expire", every, expire),
        Sweep("seal", every, seal),
        Sweep("reap", every, reap),
        Sweep("top_up", every, top_up),
        Sweep("outbox", every, outbox.run_once),
        Sweep("learn", LEARN_SECONDS, costs.learn),
        Sweep("unknown_types", UNKNOWN_TYPES_SECONDS, unknown_types),
        Sweep("prune", PRUNE_SECONDS, prune),
        Sweep("prune_files", PRUNE_SECONDS, prune_files),
    ]


def run_due(overdue_intervals: float = 0.0) -> None:
    """Run each sweep whose last run is an interval, plus `overdue_intervals` more, ago."""
    for sweep in all_sweeps():
        if take_turn(sweep, overdue_intervals):
            _run(sweep)


def _run(sweep: Sweep) -> None:
    try:
        changed = sweep.run_once()
    except Exception:
        # The others still get their turn; this one is tried again an interval later.
        log.exception("sweep_failed", sweep=sweep.name)
        return
    if changed:
        log.info("swept", sweep=sweep.name, changed=changed)


def take_turn(sweep: Sweep, overdue_intervals: float = 0.0) -> bool:
    # A tick that comes a hair early would otherwise wait for the next one: half the rate.
    due_after = sweep.interval_seconds * (0.9 + overdue_intervals)
    with connection.cursor() as cursor:
        cursor.execute(
            _TAKE_TURN,
            {"name": sweep.name, "due_after": due_after, "gap": gap_seconds(sweep.interval_seconds)},
        )
        return cursor.fetchone() is not None


def gap_seconds(interval_seconds: float) -> float:
    """With a short lease a shorter pause says as much; a pause of few turns says nothing."""
    return float(max(min(STEADY_GAP_SECONDS, settings.WEIGHBRIDGE_LEASE_SECONDS / 2), 3 * interval_seconds))


# `steady_since` begins anew after a gap between runs or a start of the database (P17).
_TAKE_TURN = """
INSERT INTO jobs_sweep AS sweep (name, last_run_at, steady_since)
VALUES (%(name)s, statement_timestamp(), statement_timestamp())
ON CONFLICT (name) DO UPDATE SET
    last_run_at = statement_timestamp(),
    steady_since = CASE
        WHEN sweep.last_run_at < statement_timestamp() - make_interval(secs => %(gap)s) THEN statement_timestamp()
        ELSE greatest(sweep.steady_since, pg_postmaster_start_time()) END
WHERE sweep.last_run_at <= statement_timestamp() - make_interval(secs => %(due_after)s)
RETURNING name
"""


def expire() -> int:
    """End queued jobs past their start_by (P2, P26); the number ended."""
    return lifecycle.expire()


def seal() -> int:
    """Seal batches whose deadline has passed, or whose jobs have all ended and nobody did (P9); the number sealed."""
    return batches.seal_due()


def unknown_types() -> int:
    """End queued jobs of types that no live node of their class knows (P27); the number ended."""
    return lifecycle.fail_unknown_types(queries.beat())


def reap() -> int:
    """End running jobs whose lease is over, if every keeper has had a whole lease's time to renew (P17)."""
    if not _steady_for(settings.WEIGHBRIDGE_LEASE_SECONDS):
        return 0
    return lifecycle.reap(queries.beat(), timedelta(seconds=settings.WEIGHBRIDGE_LEASE_SECONDS))


def _steady_for(seconds: float) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT steady_since <= clock_timestamp() - make_interval(secs => %s) FROM jobs_sweep WHERE name = 'reap'",
            [seconds],
        )
        row = cursor.fetchone()
    return bool(row and row[0])


def top_up() -> int:
    """Send the wake-ups that a class lacks: lost in a flush, never sent, or due by time only now."""
    return sum(wake_due(name) for name in classes.declared())


def after_a_limit() -> None:
    """Once what an operator has changed is committed, wake what it let go (P14). While that cannot be, the sweep makes up for it."""
    transaction.on_commit(top_up, robust=True)


def wake_due(cost_class: str) -> int:
    """Top up one class. Keepers do so for their own, because a job whose backoff is over should not wait for beat."""
    wanted = min(queries.claimable(cost_class), TOP_UP_CAP)
    if not wanted or not queries.room(cost_class).slots:
        return 0
    length = wakeups.queue_length(cost_class)
    if length is None:
        return 0
    missing = max(0, wanted - length)
    return missing if wakeups.publish(cost_class, missing) else 0


def prune() -> int:
    """Empty results past their retention, delete keys, batches, jobs, outbox entries and nodes past theirs; bounded per run."""
    return (
        _in_batches(_prune_results)
        + _in_batches(_prune_idempotency_keys)
        + _in_batches(_prune_batches, PRUNE_BATCHES_AT_ONCE)  # before their jobs, which they keep
        + _in_batches(_prune_jobs)
        + _in_batches(_prune_outbox)
        + _in_batches(_prune_flow_shares)
        + _in_batches(_prune_shares)
        + _in_batches(_prune_debts)
        + _in_batches(_prune_minutes)
        + _prune_nodes()
    )


def _in_batches(prune_some: Callable[[], int], at_once: int | None = None) -> int:
    pruned = 0
    for _ in range(PRUNE_BATCHES):
        try:
            with not_waiting():
                some = prune_some()
        except RowHeld:  # by an operator, say: the next run tries again, and no other sweep waits for it
            break
        pruned += some
        if some < (at_once or PRUNE_BATCH):
            break
    return pruned


def prune_files() -> int:
    """Remove uploads and artifacts past their time, and what was never finished, for some seconds. No transaction is open while a file is removed."""
    return uploads.prune() + artifacts.prune()


def _prune_results() -> int:
    gone = _finished_before(settings.WEIGHBRIDGE_KEEP_RESULTS_SECONDS).filter(state="succeeded", result_expired=False)
    return Job.objects.filter(pk__in=gone.values("pk")[:PRUNE_BATCH]).update(result=None, result_expired=True)


def _prune_idempotency_keys() -> int:
    before = Now() - timedelta(seconds=settings.WEIGHBRIDGE_KEEP_IDEMPOTENCY_SECONDS)
    old = IdempotencyKey.objects.filter(created_at__lt=before).order_by("created_at")
    gone, _ = IdempotencyKey.objects.filter(pk__in=old.values("client", "key")[:PRUNE_BATCH]).delete()
    return gone


def _prune_batches() -> int:
    """By their seal, as jobs by their end."""
    before = Now() - timedelta(seconds=settings.WEIGHBRIDGE_KEEP_JOBS_SECONDS)
    old = Batch.objects.filter(sealed_at__lt=before).order_by("sealed_at").values_list("pk", flat=True)
    _, by_model = Batch.objects.filter(pk__in=list(old[:PRUNE_BATCHES_AT_ONCE])).delete()
    return by_model.get(Batch._meta.label, 0)


def _prune_jobs() -> int:
    """Ids only are read: a batch of whole jobs could be gigabytes of params and results."""
    of_a_batch = BatchItem.objects.filter(job=OuterRef("pk"))  # whose results are read from it
    files = Artifact.objects.filter(job=OuterRef("pk"))  # they go first, by their own sweep
    old = _finished_before(settings.WEIGHBRIDGE_KEEP_JOBS_SECONDS).filter(~Exists(of_a_batch), ~Exists(files))
    gone = list(old.values_list("pk", flat=True)[:PRUNE_BATCH])
    _, by_model = Job.objects.filter(pk__in=gone).only("pk").delete()  # attempts and kept results go with it
    return by_model.get(Job._meta.label, 0)


def _prune_outbox() -> int:
    """What was given up; an entry that was admitted goes with its job."""
    before = Now() - timedelta(seconds=settings.WEIGHBRIDGE_KEEP_JOBS_SECONDS)
    old = OutboxEntry.objects.filter(state=outbox.EntryState.GIVEN_UP, ended_at__lt=before).order_by("ended_at")
    gone, _ = OutboxEntry.objects.filter(pk__in=old.values("pk")[:PRUNE_BATCH]).delete()
    return gone


def _prune_flow_shares() -> int:
    """Flows are named by callers, so their rows must not stay. One whose finish is behind its client's clock would begin where that is anyway."""
    behind = Q(finish_tag__lte=Subquery(_share_of(OuterRef("cost_class"), OuterRef("client")).values("flow_time")))
    old = _unused(FlowShare).filter(behind | ~Exists(_live_of(OuterRef("cost_class"), OuterRef("client"))))
    gone, _ = FlowShare.objects.filter(pk__in=old.values("cost_class", "client", "flow")[:PRUNE_BATCH]).delete()
    return gone


def _prune_shares() -> int:
    """Of clients that have nothing in the class, and would begin where its clock is anyway."""
    clock = FairClock.objects.filter(cost_class=OuterRef("cost_class")).values("virtual_time")
    live = _live_of(OuterRef("cost_class"), OuterRef("client"))
    old = _unused(FairShare).filter(~Exists(live), finish_tag__lte=Subquery(clock))
    gone, _ = FairShare.objects.filter(pk__in=old.values("cost_class", "client")[:PRUNE_BATCH]).delete()
    return gone


def _prune_debts() -> int:
    """Of who does not come back to pay."""
    before = Now() - timedelta(seconds=SHARES_SECONDS)
    old = FairDebt.objects.filter(~Exists(_live_of(OuterRef("cost_class"), OuterRef("client"))), owed_at__lt=before)
    gone, _ = FairDebt.objects.filter(pk__in=old.values("pk")[:PRUNE_BATCH]).delete()
    return gone


def _prune_minutes() -> int:
    before = Now() - timedelta(seconds=settings.WEIGHBRIDGE_KEEP_JOBS_SECONDS)
    old = ClassMinute.objects.filter(minute__lt=before)
    gone, _ = ClassMinute.objects.filter(pk__in=old.values("pk")[:PRUNE_BATCH]).delete()
    return gone


def _unused(shares: Any) -> QuerySet[Any]:
    before = Now() - timedelta(seconds=SHARES_SECONDS)
    unused: QuerySet[Any] = shares.objects.filter(used_at__lt=before)
    return unused


def _share_of(cost_class: OuterRef, client: OuterRef) -> QuerySet[FairShare]:
    return FairShare.objects.filter(cost_class=cost_class, client=client)


def _live_of(cost_class: OuterRef, client: OuterRef) -> QuerySet[Job]:
    return Job.objects.filter(cost_class=cost_class, client=client, state__in=LIVE)


def _prune_nodes() -> int:
    """Never one that may still beat, however short the retention, nor one that the database has running a job."""
    lease = settings.WEIGHBRIDGE_LEASE_SECONDS
    keep = timedelta(seconds=max(settings.WEIGHBRIDGE_KEEP_JOBS_SECONDS, NODE_LEASES * lease, NODE_SECONDS))
    at_work = Job.objects.filter(node=OuterRef("pk"), state=State.RUNNING.value)
    _, by_model = WorkerNode.objects.filter(~Exists(at_work), seen_at__lt=Now() - keep).delete()
    return by_model.get(WorkerNode._meta.label, 0)


def _finished_before(keep_seconds: float) -> QuerySet[Job]:
    return Job.objects.filter(finished_at__lt=Now() - timedelta(seconds=keep_seconds)).order_by("finished_at")
