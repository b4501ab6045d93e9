"""What admission and quotas refuse, as problems: of a job, of a batch, and of its items."""

from typing import Any

from jobs.admission import Rejected
from jobs.api.errors import Problem
from jobs.batches import BatchRejected
from jobs.decision import Share
from jobs.door.quotas import WINDOW_SECONDS, Rate
from jobs.door.refusals import REFUSALS
from jobs.entrance import NeverTogether

SUSPENDED = "An operator has suspended this client: it can submit nothing, and what it has waiting does not start. It can still read and cancel its jobs."
_OF_A_CLASS = {
    "class_draining",
    "deadline_unreachable",
    "queue_full",
    "share_full",
    "type_refused",
    "type_unavailable",
}  # which say more: what was seen of it


def job(rejected: Rejected) -> Problem:
    after = rejected.retry_after_seconds
    if REFUSALS[rejected.reason].status == 503:
        depth = {"retry_after_seconds": after, "cost_class": rejected.cost_class.name, **_depth(rejected)}
        return Problem(rejected.reason, _of_the_class(rejected), retry_after=after, **depth)
    comes_back = _unless_lasting(rejected.reason, after)
    members = {} if rejected.quota is None else {"retry_after_seconds": after}
    headers = _quota_headers(rejected)
    return Problem(rejected.reason, _of_the_client(rejected), retry_after=comes_back, headers=headers, **members)


def _unless_lasting(reason: str, after_seconds: int) -> int | None:
    return after_seconds if REFUSALS[reason].retryable else None


def _of_the_class(rejected: Rejected) -> str:
    room, name = rejected.room, rejected.cost_class.name
    if rejected.reason == "class_draining":
        return f"An operator lets class {name} take no more jobs for now; what it has taken goes on."
    if rejected.reason == "type_refused":
        return "An operator lets no more jobs of this type be taken for now; what was taken goes on."
    if rejected.reason == "unavailable" or room is None:
        return f"So many jobs are being submitted to class {name} that this one got no turn within a second."
    if rejected.reason == "type_unavailable":
        return f"No live worker of class {name} knows this job type; one may be starting."
    if rejected.reason == "deadline_unreachable":
        return f"As class {name} is, this job would probably start too late to end before its deadline{_in_about(rejected)}."
    if rejected.share is not None:
        return _of_the_share(rejected.share, name, rejected.cost_class.backlog_seconds)
    if room.slots == 0:
        return f"Class {name} is full and no worker of it is alive to drain it; when it will be is not known."
    cost_class = rejected.cost_class
    if (backlog := cost_class.backlog_of(room)) > cost_class.backlog_seconds:
        return (
            f"Class {name} has enough work: what waits and runs is expected to take its {room.slots} slots {_rounded(backlog)} s,"
            f" and it takes more only up to {cost_class.backlog_seconds:g} s."
        )
    full = f"Class {name} is full: {room.running} running on {room.slots} slots and {room.waiting} waiting"
    if cost_class.free(room) > 0 and rejected.kept:
        return f"{full}; what is left is for callers who were told to come about now."
    return f"{full}."


def _of_the_share(share: Share, name: str, backlog_seconds: float) -> str:
    kept = ", part of which is for its requests that were told to come about now" if share.kept else ""
    if share.by == "work":
        return f"Others want some of class {name} too: this client's jobs there are {_rounded(share.held_seconds)} s of work, and its share is {share.part:.0%} of {backlog_seconds:g} s on each slot{kept}."
    whose = {"key": f"limit key {share.key!r}", "paused": f"the paused job type {share.key}"}.get(
        share.by, "this client"
    )
    return f"Others want some of class {name} too: {whose} has {share.held} jobs there, and its share is {share.most}{kept}."


def _in_about(rejected: Rejected) -> str:
    starts_in = rejected.starts_in_seconds
    return "" if starts_in is None else f": in about {_rounded(starts_in)} s"


def _rounded(seconds: float) -> float:
    """An estimate; more digits would say more than is known."""
    return round(seconds, 1)


def _of_the_client(rejected: Rejected) -> str:
    if (quota := rejected.quota) is not None:
        left = f"and so {quota.left} more now" if quota.left else "and has them"
        return f"This client may have {quota.most} {'job' if quota.most == 1 else 'jobs'} waiting and running at once, {left}."
    if rejected.reason == "deadline_infeasible" and rejected.declared_seconds is not None:
        work = f"{rejected.declared_seconds:g} s of work"
        return f"The deadline has already passed, or is nearer than the {work} that the job's type says it is."
    return _SENTENCES[rejected.reason]


_SENTENCES = {
    "client_suspended": SUSPENDED,
    "deadline_infeasible": "The deadline has already passed.",
    "idempotency_in_flight": "Another request with this Idempotency-Key is being admitted; ask again for what became of it.",
}


def _depth(rejected: Rejected) -> dict[str, Any]:
    if rejected.room is None:
        return {}
    cost_class = rejected.cost_class
    depth = {
        "waiting": rejected.room.waiting,
        "max_waiting": cost_class.max_waiting,
        "running": rejected.room.running,
        "slots": rejected.room.slots,
        "room": max(0, cost_class.free(rejected.room) - rejected.kept),
        "backlog_seconds": _rounded(cost_class.backlog_of(rejected.room)),
        "max_backlog_seconds": cost_class.backlog_seconds,
    }
    if rejected.share is not None:
        depth["share"] = rejected.share.most
        depth["share_kept"] = rejected.share.kept
        depth["share_kept_seconds"] = _rounded(rejected.share.kept_seconds)
    if rejected.reason == "deadline_unreachable" and rejected.starts_in_seconds is not None:
        depth["estimated_start_seconds"] = _rounded(rejected.starts_in_seconds)
    return depth


def _quota_headers(rejected: Rejected) -> dict[str, str]:
    quota, after = rejected.quota, rejected.retry_after_seconds
    if quota is None:
        return {}
    return {"RateLimit-Policy": f'"jobs";q={quota.most}', "RateLimit": f'"jobs";r={quota.left};t={after}'}


def rate_limited(rate: Rate) -> Problem:
    sentence = f"This client may submit {rate.limit} jobs a minute; there is room for the next one in {rate.more_in_seconds} s."
    after = rate.more_in_seconds
    return Problem("rate_limited", sentence, retry_after=after, headers=rate_headers(rate), retry_after_seconds=after)


def rate_headers(rate: Rate) -> dict[str, str]:
    """As the IETF's draft has them: the policy, and what is left of it."""
    return {
        "RateLimit-Policy": f'"submits";q={rate.limit};w={WINDOW_SECONDS}',
        "RateLimit": f'"submits";r={rate.remaining};t={rate.more_in_seconds}',
    }


# ── Batches ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def batch(answer: BatchRejected) -> Problem:
    """Of the whole batch: as of one of its jobs, with the item that decided it, or the verdict on each."""
    rejected = answer.rejected
    if rejected.reason == "batch_too_large":
        room = rejected.room
        bound = rejected.cost_class.max_waiting + max(rejected.cost_class.processes, room.slots if room else 0)
        return too_large(f"Class {rejected.cost_class.name} can never hold more than {bound} jobs at once.")
    if answer.items:
        return _none_admitted(answer)
    problem = job(rejected)
    if answer.item is not None:
        problem.detail = f"Item {answer.item!r}: {problem.detail}"
        problem.members["errors"] = [{"loc": ["jobs", answer.item], "msg": problem.detail}]
    return problem


def _none_admitted(answer: BatchRejected) -> Problem:
    """503, whatever each was refused for. To come back is of no use only where each was refused for good."""
    reason, after = answer.rejected.reason, answer.rejected.retry_after_seconds
    if reason in _OF_A_CLASS:
        problem = job(answer.rejected)
    else:
        named = next(name for name, said in answer.items.items() if said == reason)
        sentence = f"None of its jobs was admitted. Item {named!r}: {REFUSALS[reason].of_item}"
        problem = Problem(reason, sentence, status=503, retry_after=_unless_lasting(reason, after))
    problem.members["results"] = {name: item(said) for name, said in answer.items.items()}
    problem.members["room"] = dict(answer.free)
    return problem


def never_together(never: NeverTogether) -> Problem:
    may = {"submits_per_minute": f"submit {never.most} jobs a minute", "max_jobs": f"have {never.most} jobs at once"}
    return too_large(f"This client may {may[never.quota]}; these are {never.jobs}.")


def too_large(why: str) -> Problem:
    return Problem("batch_too_large", f'{why} Send fewer jobs in a batch, or with "atomic": false.')


def item(reason: str) -> dict[str, Any]:
    """One that was refused, as a batch shows it."""
    return item_failed(reason, REFUSALS[reason].of_item, retryable=REFUSALS[reason].retryable)


def item_failed(code: str, message: str, *, retryable: bool = False, job_id: str | None = None) -> dict[str, Any]:
    """With an error of the shape of a job's own."""
    error = {"code": code, "message": message, "retryable": retryable, "stopped_by": None, "details": None}
    return {"ok": False, "error": error, "job": job_id}
