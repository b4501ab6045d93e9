"""Every way to be refused at the door, said once: the API's problems, the verdicts on items of a batch, the outbox and the published schema draw on this.

A code is added here, and to `states.Refusal` if admission may say it; a test misses it anywhere else.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class RefusalKind:
    """Of one code: what it is called, its HTTP status, and whether it is of use to come back with the same request.

    of_item: a sentence about one item of a batch that was refused for it; empty if none is by itself.
    """

    title: str
    status: int
    retryable: bool = False
    of_item: str = ""


REFUSALS = {
    "batch_too_large": RefusalKind("The batch can never be admitted as a whole.", 422),
    "class_draining": RefusalKind(
        "The class takes no jobs now.",
        503,
        retryable=True,
        of_item="Its class took no more jobs, by an operator's word.",
    ),
    "client_suspended": RefusalKind("This client is suspended.", 403),
    "cost_too_large": RefusalKind("The work does not fit the job's time-out.", 422),
    "deadline_infeasible": RefusalKind(
        "The deadline cannot be met.",
        422,
        of_item="Its own deadline had already passed, or was nearer than the work that its type says it is.",
    ),
    "deadline_unreachable": RefusalKind(
        "The deadline would probably be missed.",
        503,
        retryable=True,
        of_item="As its class was, it would probably have started too late for its own deadline.",
    ),
    "idempotency_in_flight": RefusalKind("The first request of this key is still being answered.", 409, retryable=True),
    "idempotency_mismatch": RefusalKind(
        "This key belongs to another request.", 422, of_item="Its key belongs to another request."
    ),
    "invalid_params": RefusalKind("The params are not valid.", 422),
    "invalid_request": RefusalKind("The request is not valid.", 422),
    "limit_out_of_range": RefusalKind("A limit is out of its range.", 422),
    "queue_full": RefusalKind("The class is full.", 503, retryable=True, of_item="Its class was full."),
    "rate_limited": RefusalKind(
        "This client submits too often.",
        429,
        retryable=True,
        of_item="The client had submitted as many jobs in a minute as it may.",
    ),
    "share_full": RefusalKind(
        "This is as much of the class as one may have.",
        503,
        retryable=True,
        of_item="The client, or a limit key that it names, had its share of the class, of which others want some.",
    ),
    "too_large": RefusalKind("The request is too large.", 413),
    "too_many_jobs": RefusalKind(
        "This client has as many jobs as it may have.",
        429,
        retryable=True,
        of_item="The client had as many jobs waiting and running as it may have at once.",
    ),
    "type_refused": RefusalKind(
        "This job type is not taken now.", 503, retryable=True, of_item="Its type was not taken, by an operator's word."
    ),
    "type_unavailable": RefusalKind(
        "No worker runs this job type now.",
        503,
        retryable=True,
        of_item="No live worker of its class knew its type.",
    ),
    "unavailable": RefusalKind("Jobs cannot be accepted now.", 503, retryable=True),
    "unknown_type": RefusalKind("There is no such job type.", 422),
    "would_deadlock": RefusalKind("This job would wait for itself.", 422),
}

BY_OPERATORS = frozenset({"class_draining", "client_suspended", "type_refused"})  # whatever room there is
OF_ITEMS = {code: kind for code, kind in REFUSALS.items() if kind.of_item}
LASTING = frozenset(code for code, kind in OF_ITEMS.items() if not kind.retryable)  # what no later try can cure
