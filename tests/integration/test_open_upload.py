"""ctx.open_upload: a handler reads its own client's uploads, or its job fails in a sentence."""

from collections.abc import Callable
from typing import Any

import pytest

from jobs.files import stored_files
from jobs.models import Job
from tests import job_rows
from tests.files import an_upload
from workers import Fail
from workers.context import JobContext

# An artifact's row goes by a connection of its own. The limits of an attempt use the alarm signal that pytest-timeout would use.
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(method="thread")]
Run = Callable[..., Job]


def test_an_upload_is_read_by_the_jobs_of_its_client_alone(run: Run) -> None:
    mine, theirs = an_upload(b"mine"), an_upload(b"theirs", client=job_rows.a_client("another"))

    def handler(ctx: JobContext[Any]) -> str:
        with ctx.open_upload(str(mine.pk)) as file:
            read = file.read().decode()
        with pytest.raises(Fail, match="upload_gone"):
            ctx.open_upload(str(theirs.pk))
        return read

    assert run(handler).result == "mine"


@pytest.mark.parametrize("upload_id", ["", "../secret-key", "00000000-0000-7000-8000-000000000000"])
def test_an_upload_that_is_none_fails_the_job_in_a_sentence(run: Run, upload_id: str) -> None:
    job = run(lambda ctx: ctx.open_upload(upload_id))
    assert (job.state, job.error_code) == ("failed", "upload_gone")


def test_a_row_without_its_file_fails_the_job_that_wants_it_and_nothing_else(run: Run) -> None:
    upload = an_upload()
    stored_files.remove(upload.file_name)
    assert run(lambda ctx: ctx.open_upload(str(upload.pk))).error_code == "upload_gone"
