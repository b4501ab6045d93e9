"""Jobs that this installation's own code submits: the API's door, the API's order of checks (P7), and no transaction around it (P1)."""

from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import Any

import pytest
from django.db import transaction
from pydantic import BaseModel
from structlog.contextvars import bound_contextvars

from jobs import registry
from jobs.models import ApiClient, IdempotencyKey, Job, OutboxEntry, Upload
from jobs.submit import (
    IN_PROCESS,
    Admitted,
    InTransaction,
    InvalidJob,
    NoRoom,
    RateLimited,
    Rejected,
    UnknownClient,
    keep_upload,
    submit,
)
from tests import job_rows
from tests.in_process_api import PROBE, InProcessApi, a_probe_node, claim_probe
from workers import JobContext, UploadId, job
from workers.catalog.probe_params import ProbeParams

pytestmark = pytest.mark.django_db

PARAMS = {"seconds": 0}
HEAVY = {"seconds": 0, "cost_class": "heavy"}


def admitted(answer: object) -> Job:
    assert isinstance(answer, Admitted), answer
    return answer.job


def test_a_job_is_admitted_as_the_api_would_have_it() -> None:
    api = InProcessApi()
    theirs = Job.objects.get(pk=api.submit(params=PARAMS, timeout_seconds=3, labels={"team": "ops"}))
    ours = admitted(submit(PROBE, PARAMS, timeout_seconds=3, labels={"team": "ops"}))
    stored = job_rows.read(ours.pk)
    same = ("type", "cost_class", "params", "labels", "state", "timeout_seconds", "max_attempts", "max_deliveries")
    assert [getattr(stored, name) for name in same] == [getattr(theirs, name) for name in same]
    assert stored.start_by is not None
    assert theirs.start_by is not None
    assert (stored.start_by - stored.accepted_at) == (theirs.start_by - theirs.accepted_at)
    assert claim_probe(a_probe_node()).job_id == theirs.pk


def test_an_argument_that_is_none_is_a_type_error_as_of_any_function() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'priorty'"):
        submit(PROBE, PARAMS, priorty=1)  # type: ignore[call-overload]


def test_a_type_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(InvalidJob, match=r"There is no job type 'probe.slep'; there are .*probe\.sleep"):
        submit("probe.slep")


def test_params_may_be_an_instance_of_the_types_model() -> None:
    job = admitted(submit(PROBE, ProbeParams(seconds=1.5, cost_class="heavy")))
    assert (job.params, job.cost_class) == ({"seconds": 1.5, "cost_class": "heavy"}, "heavy")


def test_the_request_in_whose_course_it_is_asked_for_is_kept() -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with bound_contextvars(request_id="r-1"):
        job = admitted(submit(PROBE, PARAMS, traceparent=trace))
    assert (job_rows.read(job.pk).request_id, job_rows.read(job.pk).traceparent) == ("r-1", trace)


# ── Whose it is ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_job_is_nobodys_but_the_installations_own_unless_a_client_is_named() -> None:
    api = InProcessApi()
    assert admitted(submit(PROBE, PARAMS)).client.name == IN_PROCESS
    assert admitted(submit(PROBE, PARAMS, client=api.client.name)).client == api.client
    assert len(api.get("/jobs").json()["jobs"]) == 1
    assert ApiClient.objects.filter(name=IN_PROCESS).count() == 1


@pytest.mark.parametrize("on_commit", [False, True])
def test_a_client_that_is_not_there_is_told_by_its_name(on_commit: bool) -> None:
    with pytest.raises(UnknownClient, match="'reprots'"):
        submit(PROBE, PARAMS, client="reprots", on_commit=on_commit)  # type: ignore[call-overload]
    assert not Job.objects.exists()
    assert not ApiClient.objects.filter(name="reprots").exists()


def test_the_clients_quotas_count() -> None:
    job_rows.a_client("few")
    ApiClient.objects.update(max_jobs=1)
    assert isinstance(submit(PROBE, PARAMS, client="few"), Admitted)
    refused = submit(PROBE, PARAMS, client="few")
    assert isinstance(refused, Rejected)
    assert (refused.reason, Job.objects.count()) == ("too_many_jobs", 1)


def test_a_client_that_submits_too_often_is_told_when_to_come_back() -> None:
    job_rows.a_client("often")
    ApiClient.objects.update(submits_per_minute=2)
    answers = [submit(PROBE, PARAMS, client="often") for _ in range(3)]
    refused = answers[-1]
    assert [type(answer) for answer in answers] == [Admitted, Admitted, RateLimited]
    assert isinstance(refused, RateLimited)
    assert (refused.reason, refused.limit) == ("rate_limited", 2)
    assert 1 <= refused.retry_after_seconds <= 60


# ── What is refused, and what is no job ──────────────────────────────────────────────────────────────────────────────


def test_a_full_class_is_an_answer_and_leaves_nothing() -> None:
    for _ in range(8):
        submit(PROBE, HEAVY)
    refused = submit(PROBE, HEAVY, key="k")
    assert isinstance(refused, Rejected)
    assert (refused.reason, refused.cost_class.name) == ("queue_full", "heavy")
    assert refused.retry_after_seconds >= 1
    assert (Job.objects.count(), IdempotencyKey.objects.count()) == (8, 0)


@pytest.mark.parametrize("late", [{"deadline_seconds": 0}, {"deadline_at": datetime(2020, 1, 1, tzinfo=UTC)}])
def test_a_deadline_that_has_passed_is_refused(late: dict[str, Any]) -> None:
    refused = submit(PROBE, PARAMS, **late)
    assert isinstance(refused, Rejected)
    assert refused.reason == "deadline_infeasible"


def test_of_two_deadlines_the_earlier_counts() -> None:
    """P9."""
    at = datetime(2090, 1, 1, tzinfo=UTC)
    job = job_rows.read(admitted(submit(PROBE, PARAMS, deadline_seconds=5, deadline_at=at)).pk)
    assert job.deadline_at is not None
    assert abs(job.deadline_at - job.accepted_at - timedelta(seconds=5)) < timedelta(seconds=1)


NOBODYS = "0193e3a0-0000-7000-8000-000000000000"
NO_JOBS: list[tuple[dict[str, Any], str, list[str], str]] = [
    ({"type": "no.such_type"}, "unknown_type", ["type"], "no.such_type"),
    ({"params": {}}, "invalid_params", ["params", "seconds"], "seconds"),
    ({"params": {"seconds": 0, "secnods": 1}}, "invalid_params", ["params", "secnods"], "secnods"),
    ({"params": {"seconds": -1}}, "invalid_params", ["params", "seconds"], "seconds"),
    ({"type": "reports.statistics", "params": {"file": NOBODYS}}, "invalid_params", ["params", "file"], "upload"),
    ({"params": []}, "invalid_request", ["params"], "params"),
    ({"labels": {"": "x"}}, "invalid_request", ["labels"], "labels"),
    ({"labels": {str(n): "x" for n in range(17)}}, "invalid_request", ["labels"], "labels"),
    ({"labels": {"a": 1}}, "invalid_request", ["labels", "a"], "labels.a"),
    ({"timeout_seconds": 31}, "limit_out_of_range", ["timeout_seconds"], "timeout_seconds"),
    ({"timeout_seconds": "5"}, "invalid_request", ["timeout_seconds"], "timeout_seconds"),
    ({"max_wait_seconds": 11}, "limit_out_of_range", ["max_wait_seconds"], "max_wait_seconds"),
    ({"deadline_seconds": 4e7}, "invalid_request", ["deadline_seconds"], "deadline_seconds"),
]


@pytest.mark.parametrize(("given", "code", "place", "named"), NO_JOBS, ids=lambda value: str(value)[:40])
@pytest.mark.parametrize("on_commit", [False, True])
def test_what_is_no_job_is_raised_and_names_the_field_as_the_api_does(
    given: dict[str, Any], code: str, place: list[str], named: str, on_commit: bool
) -> None:
    asked: dict[str, Any] = {"type": PROBE, "params": PARAMS, **given}
    with pytest.raises(InvalidJob) as raised:
        submit(**asked, on_commit=on_commit)  # type: ignore[call-overload]
    assert raised.value.code == code
    assert raised.value.errors[0]["loc"][: len(place)] == place
    assert named in str(raised.value)
    assert InProcessApi().json(asked).json()["code"] == code
    assert not (Job.objects.exists() or OutboxEntry.objects.exists())


@pytest.mark.parametrize(
    "params",
    [{"seconds": float("nan")}, {"seconds": datetime(2020, 1, 1, tzinfo=UTC)}, {"seconds": "\0"}, {"\ud800": 1}],
    ids=["nan", "datetime", "nul", "surrogate"],
)
def test_what_is_no_json_or_cannot_be_stored_is_no_job(params: Any) -> None:
    with pytest.raises(InvalidJob) as raised:
        submit(PROBE, params)
    assert raised.value.code == "invalid_request"


@pytest.mark.parametrize("at", [datetime(2030, 1, 1), datetime(9999, 1, 1, tzinfo=UTC)], ids=["naive", "far"])  # noqa: DTZ001
def test_a_deadline_is_an_instant_within_reach(at: datetime) -> None:
    with pytest.raises(InvalidJob, match="deadline_at must be"):
        submit(PROBE, PARAMS, deadline_at=at)


def test_params_that_are_too_large_are_no_job() -> None:
    with pytest.raises(InvalidJob) as raised:
        submit("numbers.sum_squares", {"count": 1, "x": "y" * 70_000})
    assert raised.value.code in {"too_large", "invalid_params"}


def test_a_secret_in_wrong_params_is_not_repeated() -> None:
    with pytest.raises(InvalidJob) as raised:
        submit(PROBE, {"seconds": "hunter2"})
    assert "hunter2" not in f"{raised.value} {raised.value.errors}"


# ── Files that params name ───────────────────────────────────────────────────────────────────────────────────────────


class Table(BaseModel):
    table: UploadId


@pytest.fixture
def takes_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_types", dict(registry._types))

    @job("team.size", cost_class="light", params=Table)
    def size(ctx: JobContext[Table]) -> int:
        return 0


def test_a_file_is_kept_for_jobs_of_the_same_client_and_no_other(takes_a_file: None) -> None:
    job_rows.a_client("reports")
    ours, theirs = keep_upload(b"abc"), keep_upload(BytesIO(b"abcd"), client="reports")
    assert admitted(submit("team.size", {"table": ours})).params == {"table": ours}
    assert admitted(submit("team.size", {"table": theirs}, client="reports")).params == {"table": theirs}
    for table, client in ((theirs, IN_PROCESS), (ours, "reports")):
        with pytest.raises(InvalidJob) as raised:
            submit("team.size", {"table": table}, client=client)
        assert (raised.value.code, raised.value.errors[0]["loc"]) == ("invalid_params", ["params", "table"])


def test_a_file_that_cannot_be_kept_leaves_nothing(settings: Any) -> None:
    settings.WEIGHBRIDGE_MAX_UPLOAD_BYTES, settings.WEIGHBRIDGE_MAX_CLIENT_UPLOADS_BYTES = 8, 4
    with pytest.raises(InvalidJob, match="larger than 8 bytes"):
        keep_upload(b"123456789")
    with pytest.raises(NoRoom):
        keep_upload(b"12345")
    with pytest.raises(UnknownClient):
        keep_upload(b"1", client="reprots")
    with transaction.atomic(), pytest.raises(InTransaction, match="Call it before"):
        keep_upload(b"1")
    assert not Upload.objects.exists()
