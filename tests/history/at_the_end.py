"""Rules about ends: every job has one, it never changes, a cancel is what was asked for, nothing is left."""

from collections import defaultdict
from collections.abc import Iterator

from jobs.states import State
from tests.history.events import (
    MISSING,
    CancelAnswered,
    CancelInvoked,
    ClassObserved,
    JobObserved,
)
from tests.history.seen import Seen, is_terminal
from tests.history.verdict import Anomaly, Kind


def one_end_that_never_changes(seen: Seen) -> Iterator[Anomaly]:
    """Between any two observations and the final row, once a caller was told of an end."""
    looks: dict[str, list[JobObserved]] = defaultdict(list)
    for look in seen.of(JobObserved):
        if look.state != MISSING:
            looks[look.job_id].append(look)
    for job_id, observed in looks.items():
        end = next((look for look in observed if State(look.state).terminal), None)
        if end is None:
            continue
        later = [look for look in observed if look.asked_at > end.at]
        others = {(look.state, look.error_code, look.finished_at) for look in later}
        others -= {(end.state, end.error_code, end.finished_at)}
        row = seen.jobs.get(job_id)
        if row is not None and (row.state, row.error_code) != (end.state, end.error_code):
            others.add((row.state, row.error_code, "in its row"))
        for state, code, when in sorted(others):
            yield Anomaly(Kind.CHANGED, f"{job_id} was {end.state} {end.error_code}, then {state} {code} {when}.")


def cancels_keep_their_word(seen: Seen) -> Iterator[Anomaly]:
    """200 and 202: it ends cancelled, and the instant stays. 409: it ends as was said (P20)."""
    instants: dict[str, set[str]] = defaultdict(set)
    for answer in seen.of(CancelAnswered):
        row = seen.jobs.get(answer.job_id)
        promised = State.CANCELLED.value if answer.status in {200, 202} else answer.state
        if row is not None and answer.status in {200, 202, 409} and is_terminal(row) and row.state != promised:
            sentence = f"{answer.job_id} is {row.state}, but its cancel was answered {answer.status} {answer.state}."
            yield Anomaly(Kind.CANCEL_BROKEN, sentence)
        if answer.status in {200, 202}:
            instants[answer.job_id].add(answer.cancel_requested_at)
    for job_id, told in instants.items():
        if len(told) > 1:
            yield Anomaly(Kind.CANCEL_BROKEN, f"{job_id} was cancelled at {' and at '.join(sorted(told))}.")


def no_other_job_is_cancelled(seen: Seen) -> Iterator[Anomaly]:
    asked = {call.job_id for call in seen.of(CancelInvoked)}
    for job in seen.our_jobs:
        if job.id not in asked and (job.state == State.CANCELLED or job.cancel_requested_at is not None):
            yield Anomaly(Kind.UNASKED_CANCEL, f"{job.id} is {job.state} by a cancel that nobody asked for.")


def all_drained(seen: Seen) -> Iterator[Anomaly]:
    """Every job is terminal, and the last look at each class saw none waiting and none running."""
    for job in seen.rows.jobs:
        if not is_terminal(job):
            yield Anomaly(Kind.NOT_DRAINED, f"{job.id} of {job.cost_class} is still {job.state}.")
    last = {look.cost_class: look for look in seen.of(ClassObserved)}
    for look in last.values():
        if look.waiting or look.running:
            sentence = f"{look.cost_class} was left with {look.waiting} waiting and {look.running} running."
            yield Anomaly(Kind.NOT_DRAINED, sentence)
