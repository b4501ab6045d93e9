"""Artifacts: files that an attempt leaves. They are seen once its job has succeeded, and by this attempt: that the
settle decides, so nothing here commits anything of its own (P18).

An attempt is a number that is never given twice. So what belongs to one that failed, was lost or ran on without its
lease can never be seen, and stays that way; a sweep removes it. What is seen goes with its job's result.
"""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import F, OuterRef, Q, QuerySet
from django.db.models.functions import JSONObject

from jobs.files import stored_files
from jobs.files.stored_files import UNFINISHED_SECONDS, ago
from jobs.models import Artifact, Job
from jobs.once import StaleAttempt
from jobs.states import State


@dataclass(frozen=True)
class Made:
    """A whole file of one attempt, before it is stored."""

    id: UUID
    job_id: UUID
    attempt: int
    name: str
    content_type: str
    size_bytes: int
    sha256: str

    @property
    def file_name(self) -> str:
        return Artifact(pk=self.id).file_name


def begin(own_connection: Any, made: Made) -> None:
    """The row, before its file. May be repeated. Raises StaleAttempt, and IntegrityError for a name that the attempt
    has used.
    """
    _guarded(own_connection, _BEGIN, made)


def finish(own_connection: Any, made: Made) -> None:
    """The file is whole. May be repeated. Raises StaleAttempt: the file is nobody's then."""
    _guarded(own_connection, _FINISH, made)


def take_back(own_connection: Any, made: Made) -> None:
    """Forget a file that could not be stored, so that its name is free again. May be repeated."""
    with own_connection.cursor() as cursor:
        cursor.execute("DELETE FROM jobs_artifact WHERE id = %s AND stored_at IS NULL", [made.id])


def _guarded(own_connection: Any, statement: str, made: Made) -> None:
    with own_connection.cursor() as cursor:
        cursor.execute(statement, vars(made))
        row = cursor.fetchone()
    if not row[0]:
        raise StaleAttempt


# Raw SQL, as in once.py: each looks in the same breath whether the attempt still owns its job. FOR SHARE, so that a
# settle comes before or after: of what a thread of the handler's still writes, nothing is added to a job that has
# ended.
_MINE = """
WITH mine AS MATERIALIZED (
    SELECT id FROM jobs_job WHERE id = %(job_id)s AND state = 'running' AND attempt = %(attempt)s FOR SHARE
)"""
_BEGIN = f"""{_MINE}, added AS (
    INSERT INTO jobs_artifact (id, job_id, attempt, name, content_type, size_bytes, sha256)
    SELECT %(id)s, id, %(attempt)s, %(name)s, %(content_type)s, %(size_bytes)s, %(sha256)s FROM mine
    ON CONFLICT (id) DO NOTHING
)
SELECT EXISTS (SELECT 1 FROM mine)
"""
_FINISH = f"""{_MINE}, changed AS (
    UPDATE jobs_artifact SET stored_at = clock_timestamp() FROM mine WHERE jobs_artifact.id = %(id)s
    RETURNING jobs_artifact.id
)
SELECT EXISTS (SELECT 1 FROM changed)
"""


# ── Looking at them ──────────────────────────────────────────────────────────────────────────────────────────────────

_TOLD = ("id", "name", "content_type", "size_bytes", "sha256")


def with_files(jobs: QuerySet[Job]) -> QuerySet[Job]:
    """The same jobs, read together with what of_job tells of each: in one round trip."""
    left = Artifact.objects.filter(job=OuterRef("pk"), attempt=OuterRef("attempt"), stored_at__isnull=False)
    rows = left.order_by("name").values(row=JSONObject(**{field: field for field in _TOLD}))
    return jobs.annotate(files_left=ArraySubquery(rows))


def of_job(job: Job) -> list[Artifact]:
    """What its caller may have, by name. Costs a query only for one that succeeded and was read without its files."""
    if job.state != State.SUCCEEDED or job.result_expired:
        return []
    if not hasattr(job, "files_left"):
        job = with_files(Job.objects.all()).get(pk=job.pk)
    return [Artifact(job_id=job.pk, attempt=job.attempt, **row) for row in job.files_left]  # type: ignore[attr-defined]


def named(job: Job, name: str) -> Artifact | None:
    return next((one for one in of_job(job) if one.name == name), None)


# ── Their end ────────────────────────────────────────────────────────────────────────────────────────────────────────


def prune() -> int:
    """Remove what is not seen and never will be; the number removed."""
    return stored_files.remove_rows(_over())


def _over() -> QuerySet[Artifact]:
    """What was never finished is left alone for a while: somebody may still be writing it."""
    seen = Q(job__state=State.SUCCEEDED.value, job__result_expired=False, stored_at__isnull=False)
    seen &= Q(job__attempt=F("attempt"))
    at_work = Q(job__state=State.RUNNING.value, job__attempt=F("attempt"))
    kept_too_long = Q(job__finished_at__lt=ago(settings.WEIGHBRIDGE_KEEP_JOBS_SECONDS))
    may_be_written = Q(stored_at__isnull=True, created_at__gt=ago(UNFINISHED_SECONDS))
    return Artifact.objects.exclude(at_work).exclude(seen & ~kept_too_long).exclude(may_be_written)
