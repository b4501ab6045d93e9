"""To one client another's things are as if they had never been: on every route, whatever it sends, and whatever its key may do.

The routes are those of the URL configuration. One that somebody adds needs a row in ROUTES, which says the scope that each method needs and what a
stranger would send to find out something; or in FOR_ALL, with the reason why it is nobody's own.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext
from django.urls import URLPattern, URLResolver, get_resolver

from jobs import costs, keys, queries
from jobs.control import effective
from jobs.keys import CANCEL, OPS_READ, OPS_WRITE, READ, SUBMIT, TO_LOOK
from jobs.lifecycle import Claim
from jobs.models import ApiClient, Batch, Job, Upload, WorkerNode
from jobs.states import State
from tests import batch_calls, files, job_rows
from tests.in_process_api import PROBE, InProcessApi, a_probe_node, problem

pytestmark = pytest.mark.django_db

MARK = "alpha"  # in whatever of A's can bear a name
UUIDS = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
CURSORS = re.compile(r"(YWZ0ZXI6|YmVmb3JlO)[A-Za-z0-9_=%-]*")  # base64 of "after:" and "before:"
PLACES = re.compile(r'"waiting":\{[^}]*\}')  # in the queue of the class, whose length anybody may see
RATES = re.compile(r'"throughput_per_second":[0-9.]+')  # of the class: less with each moment in which nobody leaves
INSTANTS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)")


@dataclass(frozen=True)
class Names:
    """What a stranger may have got hold of: A's, or made up."""

    job: str = "0193e3a0-0000-7000-8000-000000000000"
    batch: str = "0193e3a0-0000-7000-8000-000000000001"
    upload: str = "0193e3a0-0000-7000-8000-000000000002"
    key: str = "nobodys-key"
    label: str = "team:nobodys"
    etag: str = '"00000000000000000000000000000000"'
    before: str = "YmVmb3JlOjE="  # a cursor of GET /jobs
    after: str = "YWZ0ZXI6MTox"  # and of /jobs/changes


NOBODYS = Names()


@dataclass(frozen=True)
class Asks:
    path: str
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Route:
    """The scope that it needs, and what a stranger sends. `shared`: it also tells how busy everybody together keeps us."""

    scope: keys.Needed
    asks: Callable[[Names], list[Asks]]
    shared: bool = False


def _of_a_job(rest: str = "") -> Callable[[Names], list[Asks]]:
    def asks(names: Names) -> list[Asks]:
        conditions: list[dict[str, str]] = [
            {},
            {"If-Match": "*"},
            {"If-None-Match": names.etag},
            {"Prefer": "wait=5", "X-Weighbridge-Job": names.job},
        ]
        return [Asks(f"jobs/{names.job}{rest}", headers=headers) for headers in conditions]

    return asks


def _list(names: Names) -> list[Asks]:
    filters = ["", "state=queued", "state=succeeded", f"type={PROBE}", "cost_class=light", f"label={names.label}"]
    filters += ["accepted_after=2020-01-01T00:00:00Z", "page_size=1", f"cursor={names.before}"]
    return [Asks(f"jobs?{query}") for query in filters]


def _submit(names: Names) -> list[Asks]:
    job = {"type": PROBE, "params": {"seconds": 4711}, "labels": {"team": MARK}}
    other = {"type": PROBE, "params": {"seconds": 0}}
    return [
        Asks("jobs", other),
        Asks("jobs", job, {"Idempotency-Key": names.key}),
        Asks("jobs", other, {"Idempotency-Key": names.key}),
        Asks("jobs", {"type": PROBE}, {"Idempotency-Key": names.key}),
        Asks("jobs", other, {"Prefer": "wait=5", "X-Weighbridge-Job": names.job}),
        Asks("jobs", {"type": "reports.statistics", "params": {"file": names.upload}}),
    ]


def _of_an_upload(names: Names) -> list[Asks]:
    return [Asks(f"uploads/{names.upload}")]


def _upload(names: Names) -> list[Asks]:
    return [Asks("uploads", MARK), Asks("uploads", MARK, {"Idempotency-Key": names.key})]


def _of_a_batch(names: Names) -> list[Asks]:
    waits = {"Prefer": "wait=5", "X-Weighbridge-Job": names.job}
    return [Asks(f"batches/{names.batch}", headers=headers) for headers in ({}, waits)]


def _submit_batch(names: Names) -> list[Asks]:
    job = {"type": PROBE, "params": {"seconds": 4711}, "labels": {"team": MARK}}
    return [
        Asks("batches", {"jobs": {"a": {"type": PROBE}}}, {"Idempotency-Key": names.key}),
        Asks("batches", {"jobs": {"a": {**job, "key": names.key}}}),
        Asks("batches", {"jobs": {"a": job}}, {"Prefer": "wait=5", "X-Weighbridge-Job": names.job}),
    ]


def _plain(path: str) -> Callable[[Names], list[Asks]]:
    return lambda names: [Asks(path)]


ROUTES: dict[tuple[str, str], Route] = {
    ("GET", "api/v1/jobs"): Route(READ, _list),
    ("POST", "api/v1/jobs"): Route(SUBMIT, _submit),
    ("GET", "api/v1/jobs/changes"): Route(
        READ,
        lambda names: [
            Asks("jobs/changes"),
            Asks("jobs/changes?page_size=1"),
            Asks(f"jobs/changes?cursor={names.after}"),
        ],
    ),
    ("GET", "api/v1/jobs/<uuid:job_id>"): Route(READ, _of_a_job()),
    ("DELETE", "api/v1/jobs/<uuid:job_id>"): Route(CANCEL, _of_a_job()),
    ("GET", "api/v1/jobs/<uuid:job_id>/result"): Route(READ, _of_a_job("/result")),
    ("GET", "api/v1/jobs/<uuid:job_id>/artifacts/<str:name>"): Route(READ, _of_a_job(f"/artifacts/{MARK}.txt")),
    ("POST", "api/v1/uploads"): Route(SUBMIT, _upload),
    ("GET", "api/v1/uploads/<uuid:upload_id>"): Route(SUBMIT, _of_an_upload),
    ("DELETE", "api/v1/uploads/<uuid:upload_id>"): Route(SUBMIT, _of_an_upload),
    ("POST", "api/v1/batches"): Route(SUBMIT, _submit_batch),
    ("GET", "api/v1/batches/<uuid:batch_id>"): Route(READ, _of_a_batch),
    ("DELETE", "api/v1/batches/<uuid:batch_id>"): Route(CANCEL, _of_a_batch),
    ("GET", "api/v1/client"): Route(TO_LOOK, _plain("client")),
    ("GET", "api/v1/classes"): Route(TO_LOOK, _plain("classes"), shared=True),
    ("GET", "api/v1/classes/<str:name>"): Route(TO_LOOK, _plain("classes/light"), shared=True),
    ("PATCH", "api/v1/classes/<str:name>"): Route(OPS_WRITE, lambda names: [Asks("classes/light", {})], shared=True),
    ("PATCH", "api/v1/types/<str:name>"): Route(OPS_WRITE, lambda names: [Asks(f"types/{PROBE}", {"paused": False})]),
    # Whom there is to suspend is an operator's to know; A is named in a test of its own below.
    ("PATCH", "api/v1/clients/<str:name>"): Route(OPS_WRITE, lambda names: [Asks("clients/nobody", {})]),
    ("GET", "api/v1/controls"): Route(OPS_READ, _plain("controls")),
    ("GET", "api/v1/types"): Route(TO_LOOK, _plain("types")),
    ("GET", "api/v1/types/<str:name>"): Route(TO_LOOK, _plain(f"types/{PROBE}")),
}
FOR_ALL = {
    "healthz": "says that the process lives",
    "readyz": "says whether jobs are accepted, and of each class how many slots it has",
    "metrics": "counts all clients' jobs together, and names none; from elsewhere than loopback for ops:read only",
    "api/v1/<path:anything>": "is nothing at all",
    "": "is a page that says where everything is, the same for all",
    "api/schema/": "describes the API, the same for all; with the job types on loopback, and for jobs:read",
    "api/docs/": "is a page that shows that description",
}


# ── The routes that there are ────────────────────────────────────────────────────────────────────────────────────────


def _routes(resolver: URLResolver, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The admin is for operators, who see all clients' jobs by design."""
    for pattern in resolver.url_patterns:
        route = f"{prefix}{pattern.pattern}"
        if isinstance(pattern, URLResolver):
            if route != "admin/":
                yield from _routes(pattern, route)
        elif isinstance(pattern, URLPattern):
            yield route, pattern.callback


def _methods(view: Any) -> set[str]:
    """What a view answers. One that is no class is only read."""
    made_of = getattr(view, "cls", None) or getattr(view, "view_class", None)
    if made_of is None:
        return {"GET"}
    return {name.upper() for name in ("get", "post", "put", "patch", "delete") if hasattr(made_of, name)}


def test_every_route_has_its_row_and_every_row_its_route() -> None:
    there = {(method, route) for route, view in _routes(get_resolver()) for method in _methods(view)}
    told = set(ROUTES) | {("GET", route) for route in FOR_ALL}
    assert there - told == set(), "say in ROUTES what a stranger would send there, or in FOR_ALL why it is nobody's own"
    assert told - there == set()
    assert len(there) > 10


# ── A's things ───────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class A:
    """A client with a job in every state, each as telling as it can be."""

    client: ApiClient
    names: list[Names]
    rows: list[dict[str, Any]]

    def secrets(self) -> set[str]:
        return {
            MARK,
            self.client.name,
            self.names[0].batch,
            *(names.job for names in self.names),
            *(names.etag for names in self.names),
        }


def _a() -> A:
    api = InProcessApi()
    body = json.dumps({"type": PROBE, "params": {"seconds": 4711}, "labels": {"team": MARK}}).encode()
    waiting = api.raw(body, headers={"Idempotency-Key": f"{MARK}-key", "X-Request-Id": f"{MARK}-request"})
    assert waiting.status_code == 202
    batch = batch_calls.submitted(api, {MARK: batch_calls.a_probe()})["id"]
    upload = api.send("POST", "/api/v1/uploads", MARK.encode(), headers={"Idempotency-Key": f"{MARK}-key"}).json()["id"]
    node = job_rows.a_node()
    overdue = job_rows.a_queued_job()
    running, left_a_file = job_rows.read(_claimed(node).job_id), _claimed(node)
    files.an_artifact(left_a_file, f"{MARK}.txt", MARK.encode())
    job_rows.succeed(left_a_file)
    ended = [job_rows.a_finished_job(state, result={"r": MARK}) for state in (State.SUCCEEDED, State.CANCELLED)]
    ended.append(job_rows.a_finished_job(State.FAILED, error_code="c", error_message=MARK, error_details={"d": MARK}))
    ended.append(job_rows.a_finished_job(State.EXPIRED, error_code="max_wait", error_message=MARK))
    ended.append(job_rows.a_finished_job(State.SUCCEEDED, result=None, result_expired=True))
    theirs = [waiting.json()["id"], str(left_a_file.job_id), *(str(job.pk) for job in (overdue, running, *ended))]
    Job.objects.filter(pk__in=theirs).update(client=api.client, labels={"team": MARK}, request_id=f"{MARK}-request")
    etags = {job: api.get(f"/jobs/{job}").headers["ETag"] for job in theirs if UUID(job) != overdue.pk}
    cursor = api.get("/jobs?page_size=1").json()["next_cursor"]
    ended_until = api.get("/jobs/changes?page_size=1").json()["next_cursor"] or NOBODYS.after
    names = [
        Names(job, batch, upload, f"{MARK}-key", f"team:{MARK}", etags.get(job, NOBODYS.etag), cursor, ended_until)
        for job in theirs
    ]
    # Last, for each of the looks above would have ended it.
    Job.objects.filter(pk=overdue.pk).update(start_by=Now() - timedelta(seconds=1))
    return A(api.client, names, _rows(api.client))


def _claimed(node: WorkerNode) -> Claim:
    """Of a type that only its node knows."""
    job_rows.a_queued_job(type="tests.any")
    claimed = job_rows.claim(node)
    assert claimed is not None
    return claimed


def _rows(client: ApiClient) -> list[dict[str, Any]]:
    models: tuple[Any, ...] = (Job, Batch, Upload)
    return [dict(row) for model in models for row in model.objects.filter(client=client).order_by("pk").values()]


# ── B ────────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Told:
    """What B was told, but for the ids and instants of its own things and the cursor that it sent; and what that cost us."""

    status: int
    body: str
    headers: dict[str, str]
    queries: int


def _told(method: str, asks: Asks, scopes: tuple[str, ...], secrets: set[str]) -> Told:
    """Each time another B, who has nothing yet."""
    stranger = InProcessApi(*scopes)
    body = b"" if asks.body is None else json.dumps(asks.body).encode()
    for kept in (
        queries.class_view,
        queries.drain,
        costs.mean_seconds,
        effective.overrides,
    ):  # else only the first would ask the database
        kept.forget()  # type: ignore[union-attr]
    with CaptureQueriesContext(connection) as asked:
        answer = stranger.send(method, f"/api/v1/{asks.path}", body, headers=asks.headers)
    text = answer.content.decode()
    headers = {name: value for name, value in answer.headers.items() if name not in {"X-Request-Id", "Content-Length"}}
    own = json.dumps(asks.body) + asks.path + json.dumps(asks.headers)  # it knows what it sent
    found = {secret for secret in secrets if secret in f"{text}{headers}" and secret not in own}
    assert not found, f"{method} {asks.path} told {found}"
    return Told(
        answer.status_code, _plain_text(text), {name: _plain_text(value) for name, value in headers.items()}, len(asked)
    )


def _plain_text(text: str) -> str:
    text = PLACES.sub("<place>", RATES.sub("<rate>", text))
    return CURSORS.sub("<cursor>", INSTANTS.sub("<instant>", UUIDS.sub("<id>", text)))


@pytest.mark.django_db(transaction=True)  # or /jobs/changes would hold back what this test has not committed
@pytest.mark.parametrize(("method", "route"), ROUTES, ids=map(" ".join, ROUTES))
def test_what_is_anothers_is_as_if_it_had_never_been(method: str, route: str) -> None:
    """Neither a made-up name nor A's own, asked with the needed scope alone or with all, those of operators too, makes a difference."""
    row = ROUTES[method, route]
    scopes = [keys.any_of(row.scope)[-1:], tuple(keys.ALL_SCOPES)]
    a_probe_node(processes=4)
    in_an_empty_world = [_told(method, asks, theirs, set()) for theirs in scopes for asks in row.asks(NOBODYS)]
    a = _a()
    made_up = [_told(method, asks, theirs, a.secrets()) for theirs in scopes for asks in row.asks(NOBODYS)]
    if not row.shared:
        assert made_up == in_an_empty_world
    half = len(made_up) // 2
    for theirs, names, expected in ((scopes[0], a.names[:2], made_up[:half]), (scopes[1], a.names, made_up[half:])):
        for asks, answer in _once_each(row, names, expected):
            assert _told(method, asks, theirs, a.secrets()) == answer
            if method == "GET" and not asks.headers:
                assert _told("HEAD", asks, theirs, a.secrets()).status == answer.status
    assert _rows(a.client) == a.rows, "nothing of A's was changed"


def _once_each(row: Route, names: list[Names], expected: list[Told]) -> Iterator[tuple[Asks, Told]]:
    """What is asked with each of A's names, and how it was answered with made-up ones."""
    asked: list[Asks] = []
    for each in names:
        for asks, answer in zip(row.asks(each), expected, strict=True):
            if asks not in asked:
                asked.append(asks)
                yield asks, answer


@pytest.mark.parametrize(("method", "route"), ROUTES, ids=map(" ".join, ROUTES))
def test_without_a_key_it_is_401_and_without_its_scope_403_whosever_the_thing_is(method: str, route: str) -> None:
    row, a = ROUTES[method, route], _a()
    nobody = InProcessApi()
    lacking = InProcessApi(*(scope for scope in keys.ALL_SCOPES if scope not in keys.any_of(row.scope)))
    for names in (NOBODYS, a.names[0]):
        for asks in row.asks(names):
            body = b"" if asks.body is None else json.dumps(asks.body).encode()
            path = f"/api/v1/{asks.path}"
            problem(nobody.send(method, path, body, headers={**asks.headers, "Authorization": ""}), 401, "unauthorized")
            refused = lacking.send(method, path, body, headers=asks.headers)
            problem(refused, 403, "forbidden")
            assert refused.json()["detail"] == f"The key lacks the scope {' or '.join(keys.any_of(row.scope))}."
    assert _rows(a.client) == a.rows


def test_who_may_not_suspend_clients_does_not_learn_which_there_are() -> None:
    a, lacking = _a(), InProcessApi(*(scope for scope in keys.ALL_SCOPES if scope != OPS_WRITE))
    answers = [lacking.send("PATCH", f"/api/v1/clients/{name}", b"{}") for name in (a.client.name, "nobody")]
    assert [answer.json() for answer in answers] == [problem(answers[0], 403, "forbidden") or answers[0].json()] * 2


@pytest.mark.parametrize(
    "address",
    [*(address for address in FOR_ALL if "<" not in address), "api/v1/nothing", f"api/v1/jobs/{NOBODYS.job}/no"],
)
def test_what_is_for_all_names_nobody(address: str) -> None:
    a = _a()
    for stranger in (InProcessApi(), InProcessApi(OPS_READ)):
        answer = stranger.send("GET", f"/{address}")
        assert not {secret for secret in a.secrets() if secret in f"{answer.content.decode()}{answer.headers}"}


def test_the_comparison_would_see_a_difference() -> None:
    """A itself is told all that is kept from B: so there was something to see on each route that has an id."""
    a = _a()
    owner = InProcessApi()
    key = keys.new_key(a.client, keys.ALL_SCOPES)
    for names in a.names:
        answer = owner.send("GET", f"/api/v1/jobs/{names.job}", headers={"Authorization": f"Bearer {key}"})
        assert answer.status_code == 200
        assert MARK in answer.content.decode()
