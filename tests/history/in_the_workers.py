"""Rules about starts: every body had the right to run, was written down, and ran by itself."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations, pairwise

from jobs.states import State
from tests.history.events import MISSING, CancelAnswered, JobObserved
from tests.history.rows import AttemptRow
from tests.history.seen import Body, Seen, is_recorded, is_terminal
from tests.history.verdict import Anomaly, Kind

LOST_CODES = {"worker_lost", "poison"}
KILLS, STOPS = {"kill", "pause"}, {"term", "stop"}  # a stop in order gives a body that has returned the time to settle
SETTLE_SECONDS = 1.5  # from a body's end until it is stored, on a busy machine, while the servers are there
STORE_SECONDS = 30.0  # from when a child was hit, and its lease over, until that is stored, while the servers are there


def starts_equal_recorded_attempts(seen: Seen) -> Iterator[Anomaly]:
    """Each body has its attempt's row. (A row may lack its body: a fault may strike between claim and begin.)"""
    recorded = {(attempt.job_id, attempt.number, attempt.pid) for attempt in seen.rows.attempts}
    for body in seen.bodies:
        began = body.began
        if began.job_id in seen.jobs and (began.job_id, began.attempt, began.pid) not in recorded:
            yield Anomaly(Kind.UNRECORDED_START, f"{body.name} ran, but no attempt says so.")
    for job in seen.rows.jobs:
        attempts = seen.attempts[job.id]
        if [attempt.number for attempt in attempts] != list(range(1, job.attempt + 1)):
            yield Anomaly(
                Kind.MISCOUNTED_STARTS, f"{job.id} counts {job.attempt} starts and has {len(attempts)} attempts."
            )
        elif is_terminal(job) and any(attempt.finished_at is None for attempt in attempts):
            yield Anomaly(Kind.MISCOUNTED_STARTS, f"{job.id} is {job.state}, but an attempt of it is still open.")


def no_attempt_runs_twice(seen: Seen) -> Iterator[Anomaly]:
    began: dict[tuple[str, int], list[Body]] = defaultdict(list)
    for body in seen.bodies:
        began[body.began.job_id, body.began.attempt].append(body)
    for bodies in began.values():
        if len(bodies) > 1:
            yield Anomaly(Kind.RAN_TWICE, f"{bodies[0].name} began {len(bodies)} times.")


def nothing_finished_runs_again(seen: Seen) -> Iterator[Anomaly]:
    """A body that returned is the last, unless its process was killed or paused before it could store that."""
    for bodies in seen.bodies_by_job().values():
        for body, after in pairwise(sorted(bodies, key=lambda body: body.began.attempt)):
            again = body.returned and after.began.attempt > body.began.attempt
            if again and not _was_hit_before_it_settled(seen, body, after.began.at):
                yield Anomaly(Kind.RAN_AGAIN, f"{after.name} began although {body.name} had returned.")


def _was_hit_before_it_settled(seen: Seen, body: Body, again_at: float) -> bool:
    assert body.ended is not None
    ended_at = body.ended.at
    settled_by = again_at if seen.servers_were_away(ended_at, again_at) else ended_at + SETTLE_SECONDS
    return seen.was_struck(body.began.pid, KILLS, ended_at, min(settled_by, again_at))


def a_success_has_a_body(seen: Seen) -> Iterator[Anomaly]:
    returned = {(body.began.job_id, body.began.attempt) for body in seen.bodies if body.returned}
    for job in seen.our_jobs:
        if is_recorded(job) and job.state == State.SUCCEEDED and (job.id, job.attempt) not in returned:
            yield Anomaly(
                Kind.SUCCESS_WITHOUT_BODY, f"{job.id} succeeded, but no body of attempt {job.attempt} returned."
            )


def one_lease_per_job(seen: Seen) -> Iterator[Anomaly]:
    for job_id, attempts in seen.attempts.items():
        for first, second in pairwise(attempts):
            if first.finished_at is None or first.finished_at > second.started_at:
                yield Anomaly(
                    Kind.TWO_LEASES, f"{job_id}: attempt {second.number} started before {first.number} had ended."
                )


def bodies_never_overlap(seen: Seen) -> Iterator[Anomaly]:
    """Side by side only around a long pause, and for at most a beat after it (P18)."""
    for first, second in _side_by_side(seen):
        if not is_excused(seen, first, second):
            yield Anomaly(Kind.OVERLAP, f"{first.name} and {second.name} ran side by side.")


def excused_overlaps(seen: Seen) -> int:
    return sum(is_excused(seen, first, second) for first, second in _side_by_side(seen))


def _side_by_side(seen: Seen) -> Iterator[tuple[Body, Body]]:
    """Bodies of different attempts of a job: the second began before the first ended, or met its lock."""
    for bodies in seen.bodies_by_job().values():
        for first, second in combinations(bodies, 2):
            if first.began.attempt == second.began.attempt:
                continue
            if first.ended is None:
                # It was killed, or its lock would have been met.
                overlaps = not second.began.alone and second is bodies[bodies.index(first) + 1]
            else:
                overlaps = second.began.at < first.ended.at
            if overlaps:
                yield first, second


def is_excused(seen: Seen, first: Body, second: Body) -> bool:
    last = [body.ended.at for body in (first, second) if body.ended]
    together_until = min(last, default=second.began.at)
    pids = (first.began.pid, second.began.pid)
    return seen.excused(second.began.at, pids) and seen.excused(together_until, pids)


def never_more_bodies_than_processes(seen: Seen) -> Iterator[Anomaly]:
    """Of bodies that ended by themselves: when the others were killed is not known."""
    for cost_class, processes in seen.bounds.processes.items():
        steps: list[tuple[float, int]] = []
        for body in seen.bodies:
            job = seen.jobs.get(body.began.job_id)
            if body.ended and job and job.cost_class == cost_class:
                steps += [(body.began.at, 1), (body.ended.at, -1)]
        most = at_once = 0
        for _, step in sorted(steps):  # at one instant ends come first
            at_once += step
            most = max(most, at_once)
        if most > processes:
            yield Anomaly(Kind.TOO_MANY_BODIES, f"{most} bodies of {cost_class} ran at once on {processes} processes.")


def nothing_is_lost_without_cause(seen: Seen) -> Iterator[Anomaly]:
    """An attempt is given up as lost only if a nemesis hit its process while it ran, and released only if one stopped it:
    servers that went away are no reason."""
    for attempt in seen.rows.attempts:
        if attempt.finished_at is None:
            continue
        began, ended = seen.by_events(attempt.started_at), seen.by_events(attempt.finished_at)
        if attempt.error_code in LOST_CODES and not _was_hit(seen, attempt.pid, KILLS | STOPS, began, ended):
            sentence = f"{_name(attempt)} was given up as {attempt.error_code}, but nobody hit its process."
            yield Anomaly(Kind.LOST_WITHOUT_CAUSE, sentence)
        elif attempt.error_code == "released" and not _was_hit(seen, attempt.pid, KILLS | STOPS, began, ended):
            yield Anomaly(Kind.RELEASED_WITHOUT_CAUSE, f"{_name(attempt)} was released, but nobody stopped its node.")


def _was_hit(seen: Seen, pid: int, acts: set[str], began: float, ended: float) -> bool:
    """And not so long before the end that it has nothing to do with it."""
    long_ago = began if seen.servers_were_away(began, ended) else ended - seen.bounds.lease_seconds - STORE_SECONDS
    return seen.was_struck(pid, acts, max(began, long_ago), ended)


def no_late_starts(seen: Seen) -> Iterator[Anomaly]:
    """None after the deadline, the expiry, a cancel, or the end, by the database's clock."""
    slack = seen.bounds.stamp_seconds
    for attempt in seen.rows.attempts:
        job = seen.jobs[attempt.job_id]
        if job.deadline_at is not None and attempt.started_at > job.deadline_at + slack:
            yield Anomaly(Kind.START_AFTER_DEADLINE, f"{_name(attempt)} started after its deadline.")
        elif job.state == State.EXPIRED or (
            _first_wait_is_known(attempt, seen) and _past(attempt, job.start_by, slack)
        ):
            yield Anomaly(Kind.START_AFTER_EXPIRY, f"{_name(attempt)} started although the job had expired.")
        elif _past(attempt, job.cancel_requested_at):
            yield Anomaly(Kind.START_AFTER_CANCEL, f"{_name(attempt)} started after the cancel was stored.")
        elif _past(attempt, job.finished_at):
            yield Anomaly(Kind.START_AFTER_END, f"{_name(attempt)} started after the job was {job.state}.")


def _first_wait_is_known(attempt: AttemptRow, seen: Seen) -> bool:
    """A requeue writes another `start_by`, which is no earlier."""
    return attempt.number == seen.jobs[attempt.job_id].attempt == 1


def _past(attempt: AttemptRow, instant: float | None, slack: float = 0.0) -> bool:
    return instant is not None and attempt.started_at > instant + slack


def _name(attempt: AttemptRow) -> str:
    return f"attempt {attempt.number} of {attempt.job_id} in process {attempt.pid}"


def no_body_begins_after_it_was_told(seen: Seen) -> Iterator[Anomaly]:
    """By this machine's clock: not once a caller was told that the job was cancelled or had ended."""
    cancelled = _first_told(
        [(answer.job_id, answer.at) for answer in seen.of(CancelAnswered) if answer.state == State.CANCELLED]
    )
    looks = [look for look in seen.of(JobObserved) if look.state != MISSING]
    ended = _first_told([(look.job_id, look.at) for look in looks if State(look.state).terminal])
    for body in seen.bodies:
        began = body.began
        for told, kind in ((cancelled, Kind.START_AFTER_CANCEL), (ended, Kind.START_AFTER_END)):
            if began.at > told.get(began.job_id, began.at) and not seen.excused(began.at, [began.pid]):
                yield Anomaly(kind, f"{body.name} began after a caller was told that the job had ended.")
                break


def _first_told(told: list[tuple[str, float]]) -> dict[str, float]:
    first: dict[str, float] = {}
    for job_id, at in told:
        first.setdefault(job_id, at)
    return first
