"""What is wrong with a configuration although each number alone is fine."""

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import DEFAULT_DB_ALIAS, connection
from django.urls import get_resolver
from psycopg import IsolationLevel

from jobs import classes, registry, sweeps
from jobs.cores import usable_cores
from jobs.registry import JobType, WrongJobType


def refuse_impossible_types() -> None:
    """Raises WrongJobType for a type whose declared class or timeout cannot be."""
    for job_type in registry.all_types():
        if isinstance(job_type.cost_class, str):
            _refuse_impossible(job_type, job_type.cost_class)


def _refuse_impossible(job_type: JobType, cost_class: str) -> None:
    known = classes.declared()
    if cost_class not in known:
        raise WrongJobType(
            f"Job type {job_type.name!r} names cost class {cost_class!r}; declared are {', '.join(known)}."
        )
    ceiling = known[cost_class].ceiling_seconds
    if job_type.timeout_seconds is not None and job_type.timeout_seconds > ceiling:
        raise WrongJobType(
            f"Job type {job_type.name!r} has a timeout of {job_type.timeout_seconds:g} s, above the ceiling of class"
            f" {cost_class!r}, {ceiling:g} s."
        )


@register
def processes_fit_the_cores(**kwargs: Any) -> list[CheckMessage]:
    cores = usable_cores()
    return [
        Warning(
            f"Class {c.name!r} has {c.processes} processes on {cores} usable cores.",
            hint=f"Work that computes will not run faster for it; {classes.variable(c.name, 'processes')} sets the number.",
            id="jobs.W001",
        )
        for c in classes.declared().values()
        if c.processes > cores
    ]


@register
def admission_can_lock(**kwargs: Any) -> list[CheckMessage]:
    """P1: the class lock must end with admission, and the count after it must see a new snapshot."""
    database = settings.DATABASES["default"]
    found: list[CheckMessage] = []
    if "postgresql" not in database["ENGINE"]:
        found.append(Error(f"DATABASES['default'] is {database['ENGINE']}; jobs need PostgreSQL.", id="jobs.E001"))
    if database.get("ATOMIC_REQUESTS"):
        found.append(
            Error("ATOMIC_REQUESTS would hold a class's lock until a request ends; set it to False.", id="jobs.E002")
        )
    if (database.get("OPTIONS") or {}).get("isolation_level") not in {None, IsolationLevel.READ_COMMITTED}:
        found.append(Error("isolation_level must be READ COMMITTED, or admission over-admits.", id="jobs.E003"))
    return found


BEATS_PER_LEASE = 3  # two may be lost or late, and the third still renews in time


@register
def the_timings_fit(**kwargs: Any) -> list[CheckMessage]:
    """P17: each is in its range, yet together they could end the jobs of workers that live."""
    lease, beat = settings.WEIGHBRIDGE_LEASE_SECONDS, settings.WEIGHBRIDGE_BEAT_SECONDS
    sweep = settings.WEIGHBRIDGE_SWEEP_SECONDS
    gap = sweeps.gap_seconds(sweep)
    found: list[CheckMessage] = []
    if lease < BEATS_PER_LEASE * beat:
        why = f"{BEATS_PER_LEASE} times WEIGHBRIDGE_BEAT_SECONDS, which is {beat:g}, or living jobs lose their lease"
        found.append(_short_lease(lease, why, "jobs.E004"))
    if lease < gap:
        why = f"{gap:g}, the pause between sweeps that WEIGHBRIDGE_SWEEP_SECONDS, which is {sweep:g}, lets pass unseen"
        found.append(_short_lease(lease, why, "jobs.E005"))
    return found


@register
def a_key_does_not_outlast_its_job(**kwargs: Any) -> list[CheckMessage]:
    """A key goes with its job: one that is promised for longer would make a second job when it comes again (P39a)."""
    keys, kept = settings.WEIGHBRIDGE_KEEP_IDEMPOTENCY_SECONDS, settings.WEIGHBRIDGE_KEEP_JOBS_SECONDS
    if keys <= kept:
        return []
    at_most = f"WEIGHBRIDGE_KEEP_JOBS_SECONDS, which is {kept:.15g}"
    return [
        Error(f"WEIGHBRIDGE_KEEP_IDEMPOTENCY_SECONDS is {keys:.15g}, but must be at most {at_most}.", id="jobs.E006")
    ]


def _short_lease(lease: float, at_least: str, identity: str) -> Error:
    return Error(f"WEIGHBRIDGE_LEASE_SECONDS is {lease:g}, but must be at least {at_least}.", id=identity)


@register(Tags.urls)
def errors_are_problems(**kwargs: Any) -> list[CheckMessage]:
    """A ROOT_URLCONF of one's own that includes ours has none of its handlers, and what Django itself refuses would be HTML."""
    resolver = get_resolver()
    missing = [code for code in (400, 404, 500) if resolver.resolve_error_handler(code).__module__ != "jobs.api.errors"]
    if not missing:
        return []
    names = ", ".join(f"handler{code}" for code in missing)
    return [
        Warning(
            f"{settings.ROOT_URLCONF} has not {names} of jobs.api.errors: some refusals of the API will be pages of HTML, not problems.",
            hint="Write `from project.urls import handler400, handler404, handler500` in it, or refuse as they do below /api/.",
            id="jobs.W003",
        )
    ]


@register(Tags.database)
def transactions_see_what_was_committed(databases: Any = None, **kwargs: Any) -> list[CheckMessage]:
    """P1 on the server: a role, a database or PGOPTIONS may set another default. Run by `migrate`."""
    if DEFAULT_DB_ALIAS not in (databases or ()):
        return []
    with connection.cursor() as cursor:
        cursor.execute("SHOW default_transaction_isolation")
        (level,) = cursor.fetchone()
    if level == "read committed":
        return []
    sentence = f"The database begins transactions as {level}; admission needs READ COMMITTED as their default."
    return [Error(sentence, hint="ALTER ROLE, ALTER DATABASE or PGOPTIONS may have set it.", id="jobs.E007")]
