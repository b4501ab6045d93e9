"""Judges a whole history against the final rows of the database: a pure function."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from tests.history import at_the_door, at_the_end, in_the_workers
from tests.history.events import CancelAnswered, CancelUnknown, Event, JobObserved, SubmitAccepted, SubmitRefused
from tests.history.rows import JobRow, Rows
from tests.history.seen import Bounds, Seen, is_recorded, is_terminal
from tests.history.verdict import Anomaly, Counts, Verdict

RULES: tuple[Callable[[Seen], Iterator[Anomaly]], ...] = (
    at_the_door.nothing_lost,
    at_the_door.one_job_per_submission,
    at_the_door.nothing_unexpected,
    at_the_door.no_refused_job_is_there,
    at_the_door.every_answer_counts,
    at_the_door.never_over_admitted,
    at_the_door.few_unknown,
    at_the_door.shares_are_held_to_in_crowded_classes_only,
    in_the_workers.starts_equal_recorded_attempts,
    in_the_workers.no_attempt_runs_twice,
    in_the_workers.nothing_finished_runs_again,
    in_the_workers.a_success_has_a_body,
    in_the_workers.one_lease_per_job,
    in_the_workers.bodies_never_overlap,
    in_the_workers.never_more_bodies_than_processes,
    in_the_workers.nothing_is_lost_without_cause,
    in_the_workers.no_late_starts,
    in_the_workers.no_body_begins_after_it_was_told,
    at_the_end.one_end_that_never_changes,
    at_the_end.cancels_keep_their_word,
    at_the_end.no_other_job_is_cancelled,
    at_the_end.all_drained,
)


def check(events: Iterable[Event], rows: Rows, bounds: Bounds | None = None) -> Verdict:
    """Read the rows after the drain. Jobs that no client of the history asked for count for room and for the drain."""
    seen = Seen(events, rows, bounds or Bounds())
    return Verdict(tuple(anomaly for rule in RULES for anomaly in rule(seen)), _counts(seen))


def _counts(seen: Seen) -> Counts:
    accepted = [call for call in seen.calls if call.accepted]
    ours = seen.our_jobs
    unknown = {call.invoked.submission for call in seen.calls if call.is_unknown}
    known = {call.invoked.submission for call in accepted}
    began = {(body.began.job_id, body.began.attempt) for body in seen.bodies}
    recorded = {job.id for job in ours if is_recorded(job)}
    attempts = [attempt for attempt in seen.rows.attempts if attempt.job_id in recorded]
    return Counts(
        invoked=len(seen.calls),
        accepted=len(accepted),
        refused=Counter(refusal.code or str(refusal.status) for refusal in seen.of(SubmitRefused)),
        unknown=sum(call.is_unknown for call in seen.calls),
        unsent=len(seen.calls) - sum(call.is_unknown or _is_answered(call.outcomes) for call in seen.calls),
        recovered=len({job.submission for job in ours} & (unknown - known)),
        slowest_answer_seconds=max(
            (call.outcomes[0].at - call.invoked.at for call in seen.calls if _is_answered(call.outcomes)), default=0.0
        ),
        ended=Counter(_end_of(job) for job in ours if is_terminal(job)),
        attempts=len(attempts),
        bodies=len(seen.bodies),
        killed_bodies=sum(body.ended is None for body in seen.bodies),
        unstarted=sum((attempt.job_id, attempt.number) not in began for attempt in attempts),
        excused_overlaps=in_the_workers.excused_overlaps(seen),
        cancels=Counter(
            [str(answer.status) for answer in seen.of(CancelAnswered)] + ["unknown" for _ in seen.of(CancelUnknown)]
        ),
        observations=len(seen.of(JobObserved)),
        hits=Counter(strike.began.nemesis for strike in seen.strikes if strike.hit),
        foreign=len(seen.rows.jobs) - len(ours),
    )


def _is_answered(outcomes: Iterable[object]) -> bool:
    return any(isinstance(outcome, SubmitAccepted | SubmitRefused) for outcome in outcomes)


def _end_of(job: JobRow) -> str:
    return f"{job.state}/{job.error_code}" if job.error_code else job.state
