"""Rules about submits: every answer was true, and the door let in no more than there was room for."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator

from tests.history.events import (
    MISSING,
    JobObserved,
    SubmitAccepted,
    SubmitOutcome,
    SubmitRefused,
    SubmitUnknown,
    SubmitUnsent,
)
from tests.history.rows import JobRow
from tests.history.seen import Call, Seen, is_terminal
from tests.history.verdict import Anomaly, Kind

# What a server may say when it is not the request's fault.
BUSY = {"queue_full", "unavailable", "type_unavailable", "class_draining", "deadline_unreachable", "share_full"}
# And when it is. A client with a good key is told nothing else.
WRONG = {
    409: {"idempotency_in_flight"},
    413: {"too_large"},
    422: {
        "batch_too_large",
        "deadline_infeasible",
        "idempotency_mismatch",
        "invalid_params",
        "invalid_request",
        "limit_out_of_range",
        "unknown_type",
    },
}


def nothing_lost(seen: Seen) -> Iterator[Anomaly]:
    for call in seen.calls:
        if call.accepted is not None and not _is_there(seen, call, call.accepted.job_id):
            yield Anomaly(Kind.LOST, f"{call.invoked.call} was accepted as {call.accepted.job_id}, which is not there.")
    accepted = {outcome.job_id for outcome in seen.of(SubmitAccepted)}
    missed = {look.job_id for look in seen.of(JobObserved) if look.state == MISSING}
    for job_id in sorted(missed & accepted & seen.jobs.keys()):
        yield Anomaly(Kind.LOST, f"{job_id} was answered 404 while it was there.")


def _is_there(seen: Seen, call: Call, job_id: str) -> bool:
    return job_id in seen.jobs and seen.jobs[job_id].submission == call.invoked.submission


def one_job_per_submission(seen: Seen) -> Iterator[Anomaly]:
    """One job per idempotency key; without a key, one per submit."""
    jobs: dict[str, set[str]] = defaultdict(set)
    for job in seen.rows.jobs:
        jobs[job.submission].add(job.id)
    for call in seen.calls:
        if call.invoked.key and call.accepted:
            jobs[call.invoked.submission].add(call.accepted.job_id)
    for submission, calls in seen.calls_by_submission().items():
        if len(jobs[submission]) > 1:
            kind = Kind.KEY_TWICE if calls[0].invoked.key else Kind.DUPLICATED
            yield Anomaly(kind, f"{submission} became {len(jobs[submission])} jobs: {', '.join(jobs[submission])}.")


def nothing_unexpected(seen: Seen) -> Iterator[Anomaly]:
    for job in seen.our_jobs:
        if job.submission not in seen.submissions:
            yield Anomaly(Kind.UNEXPECTED, f"{job.id} is there, but nobody submitted {job.submission}.")
    for body in seen.bodies:
        if body.began.job_id not in seen.jobs:
            yield Anomaly(Kind.UNEXPECTED, f"{body.name} ran, but there is no such job.")


def no_refused_job_is_there(seen: Seen) -> Iterator[Anomaly]:
    """A refused job never runs: it leaves no row that could be claimed."""
    calls = seen.calls_by_submission()
    for job in seen.our_jobs:
        asked = calls.get(job.submission, [])
        if asked and all(call.is_all(SubmitRefused, SubmitUnsent) for call in asked):
            said = ", ".join(_said(outcome) for call in asked for outcome in call.outcomes)
            yield Anomaly(Kind.REFUSED_RAN, f"{job.id} is {job.state} after {job.attempt} starts, but was told {said}.")


def _said(outcome: SubmitOutcome) -> str:
    return f"{outcome.status} {outcome.code}" if isinstance(outcome, SubmitRefused) else type(outcome).__name__


def every_answer_counts(seen: Seen) -> Iterator[Anomaly]:
    """accepted + refused = answered: no answer is both, or neither."""
    invoked = {call.invoked.call for call in seen.calls}
    for call in seen.calls:
        if len(call.outcomes) > 1:
            yield Anomaly(Kind.UNACCOUNTED, f"{call.invoked.call} has {len(call.outcomes)} outcomes.")
    for event in seen.events:
        if isinstance(event, SubmitAccepted | SubmitRefused | SubmitUnknown | SubmitUnsent):
            if event.call not in invoked:
                yield Anomaly(Kind.UNACCOUNTED, f"{event.call} has an outcome, but was never invoked.")
            elif isinstance(event, SubmitRefused) and not _is_refusal(event):
                yield Anomaly(Kind.UNACCOUNTED, f"{event.call} was answered {event.status} {event.code!r}: neither.")


def _is_refusal(answer: SubmitRefused) -> bool:
    return answer.code in (BUSY if answer.status == 503 else WRONG.get(answer.status, set()))


def never_over_admitted(seen: Seen) -> Iterator[Anomaly]:
    """P3: at every admission, queued + running ≤ the bound it was made with."""
    by_class: dict[str, list[JobRow]] = defaultdict(list)
    for job in seen.rows.jobs:
        by_class[job.cost_class].append(job)
    for jobs in by_class.values():
        came = sorted(job.accepted_at for job in jobs)
        left = sorted(at for at in (_left_its_place_at(seen, job) for job in jobs) if at is not None)
        for job in jobs:
            live = bisect_right(came, job.accepted_at) - bisect_right(left, job.accepted_at)
            if live > job.admitted_bound:
                number = bisect_left(came, job.accepted_at) + 1
                sentence = f"{job.id}, number {number} of {job.cost_class}, made {live} where {job.admitted_bound} fit."
                yield Anomaly(Kind.OVER_ADMITTED, sentence)


def _left_its_place_at(seen: Seen, job: JobRow) -> float | None:
    """When it ended, or while it waited for a start that never came, when its start_by passed (P2)."""
    ends = [at for at in (job.finished_at, _start_by_of_last_wait(seen, job)) if at is not None]
    return min(ends, default=None)


def _start_by_of_last_wait(seen: Seen, job: JobRow) -> float | None:
    """None if the job's last time in the class was a run. Until its last attempt ended it held its place."""
    attempts = seen.attempts[job.id]
    if not attempts:
        return job.start_by
    ran_until = attempts[-1].finished_at
    ended_in_a_run = ran_until is None or (is_terminal(job) and ran_until == job.finished_at)
    return None if ended_in_a_run or job.start_by is None else max(job.start_by, ran_until or 0.0)


def few_unknown(seen: Seen) -> Iterator[Anomaly]:
    unknown = sum(call.is_unknown for call in seen.calls)
    sent = sum(not call.is_all(SubmitUnsent) for call in seen.calls)
    if unknown > seen.bounds.unknown_share * sent:
        yield Anomaly(Kind.TOO_MANY_UNKNOWN, f"{unknown} of {sent} submits have no answer.")


def shares_are_held_to_in_crowded_classes_only(seen: Seen) -> Iterator[Anomaly]:
    """P10a: a refusal for a share bears witness, but that of an item of a batch, that no process was free, and of more than half of the places taken or a quarter of the work."""
    for refusal in seen.of(SubmitRefused):
        if refusal.crowded is False:
            sentence = f"{refusal.call} was refused for a share of a class that was not crowded."
            yield Anomaly(Kind.SHARE_UNFOUNDED, sentence)
