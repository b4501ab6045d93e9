"""fan_out and http.aggregate: partial results in time, each call behind its own bulkhead, no trick in a path."""

import math
import runpy
import time
from collections.abc import Iterator
from functools import partial
from typing import Any
from unittest.mock import create_autospec

import pytest
from pydantic import ValidationError

from jobs import registry
from jobs.ranges import WrongSetting
from tests.acceptance.slow_services import Services, answering, connections_to, hanging, in_turn, resetting
from tests.waiting import eventually
from workers import JobContext, checks
from workers.bulkheads import Bulkhead
from workers.catalog import http_aggregate
from workers.catalog.http_aggregate import AggregateParams, aggregate, seconds_to_wait
from workers.deadlines import Deadline
from workers.fanout import CallOutcome, RequiredCallFailed, fan_out
from workers.http import Call, Http
from workers.services import services as set_up_services


@pytest.fixture(scope="module")
def services() -> Iterator[Services]:
    with Services() as running:
        yield running


@pytest.fixture
def http() -> Http:
    return Http(Deadline.after(30), "0193-job", job_retries=True)


def test_what_came_is_returned_at_the_deadline_and_what_did_not_is_named(services, http):
    quick, _ = services.add(answering())
    slow, counts = services.add(hanging)
    started_at = time.monotonic()
    outcomes = fan_out({"quick": Call(quick), "slow": Call(slow)}, 1.0, http=http)
    assert 1.0 <= time.monotonic() - started_at < 2.0
    assert outcomes["quick"] == CallOutcome(True, 200, {"answer": 42})
    assert (outcomes["slow"].ok, outcomes["slow"].error) == (False, "deadline_exceeded")
    assert list(outcomes) == ["quick", "slow"]
    assert connections_to(quick, slow) == 0
    eventually(lambda: counts.open_connections == 0)


def test_when_all_have_answered_nobody_waits_for_the_deadline(services, http):
    url, _ = services.add(answering())
    assert all(outcome.ok for outcome in fan_out({"a": Call(url), "b": Call(url)}, 60.0, http=http).values())


def test_calls_are_made_at_once(services, http):
    url, counts = services.add(answering(after_seconds=0.3))
    fan_out({str(number): Call(url) for number in range(5)}, 20.0, http=http)
    assert counts.most == 5


def test_the_jobs_own_deadline_comes_first(services):
    url, _ = services.add(hanging)
    http = Http(Deadline.after(0.1), "0193-job", job_retries=True)
    assert fan_out({"a": Call(url)}, 60.0, http=http)["a"].error == "deadline_exceeded"


@pytest.mark.parametrize(("behaviour", "error", "status"), [
    (answering(status="404 Not Found"), "http_404", 404),
    (answering(status="302 Found"), "http_302", 302),
    (answering(status="503 Busy"), "unavailable", 503),
    (resetting, "connection_lost", None),
    (answering(body=b"{"), "bad_answer", None),
    (answering(body=b"[NaN]"), "bad_answer", None),
    (answering(body=b"\xff"), "bad_answer", None),
    (answering(body=b"[" * 100_000), "bad_answer", None),
    (answering(body=b"x" * 2_000_000), "body_too_large", None),
])  # fmt: skip
def test_every_failure_has_its_code_and_a_sentence(services, http, behaviour, error, status):
    url, _ = services.add(behaviour)
    outcome = fan_out({"a": Call(url)}, 20.0, http=http)["a"]
    assert (outcome.ok, outcome.error, outcome.status, outcome.data) == (False, error, status, None)
    assert outcome.message.endswith(".")


@pytest.mark.parametrize(("kind", "data"), [
    ("application/json", [1]), ("application/problem+json; charset=utf-8", [1]), ("text/plain", "[1]"), ("", "[1]"),
])  # fmt: skip
def test_json_is_data_and_anything_else_is_text(services, http, kind, data):
    url, _ = services.add(answering(body=b"[1]", kind=kind))
    assert fan_out({"a": Call(url)}, 20.0, http=http)["a"].data == data


def test_a_required_call_that_fails_stops_the_others(services, http):
    missing, _ = services.add(answering(status="404 Not Found"))
    slow, counts = services.add(hanging)
    with pytest.raises(RequiredCallFailed, match=r"The required call 'a' failed: .* answered 404\.") as failed:
        fan_out({"b": Call(slow), "a": Call(missing)}, 25.0, http=http, required=["a", "b"])
    assert (failed.value.name, failed.value.retryable) == ("a", False)
    assert {name: outcome.error for name, outcome in failed.value.outcomes.items()} == {"a": "http_404", "b": "stopped"}
    assert http.deadline.remaining() > 10
    assert connections_to(slow) == 0
    eventually(lambda: counts.open_connections == 0)


def test_a_required_call_that_is_late_has_failed(services, http):
    slow, _ = services.add(hanging)
    with pytest.raises(RequiredCallFailed) as failed:
        fan_out({"a": Call(slow)}, 0.1, http=http, required=["a"])
    assert failed.value.outcomes["a"].error == "deadline_exceeded"


def test_a_required_call_that_may_pass_is_worth_another_attempt_of_the_job(services, http):
    busy, _ = services.add(answering(status="503 Busy"))
    with pytest.raises(RequiredCallFailed) as failed:
        fan_out({"a": Call(busy)}, 20.0, http=http, required=["a"])
    assert failed.value.retryable


def test_a_call_that_is_not_required_fails_alone(services, http):
    missing, _ = services.add(answering(status="404 Not Found"))
    quick, _ = services.add(answering(after_seconds=0.1))
    outcomes = fan_out({"a": Call(missing), "b": Call(quick)}, 20.0, http=http, required=["b"])
    assert (outcomes["a"].error, outcomes["b"].ok) == ("http_404", True)


def test_a_required_name_must_be_among_the_calls(http):
    with pytest.raises(ValueError, match="not among the calls: b"):
        fan_out({}, 1.0, http=http, required=["b"])


def test_those_behind_a_full_bulkhead_delay_no_other_and_are_never_sent(services, http, tmp_path):
    quick, _ = services.add(answering())
    behind, counts = services.add(answering())
    full = Bulkhead(tmp_path, "full", 1)
    with full.hold(Deadline.after(5)):
        outcomes = fan_out({"a": Call(quick), "b": Call(behind, bulkhead=full)}, 0.5, http=http)
    assert (outcomes["a"].ok, outcomes["b"].error, counts.connections) == (True, "deadline_exceeded", 0)


def test_a_service_never_sees_more_at_once_than_its_bulkhead_has_places(services, http, tmp_path):
    url, counts = services.add(answering(after_seconds=0.05))
    calls = {str(number): Call(url, bulkhead=Bulkhead(tmp_path, "prices", 2)) for number in range(8)}
    assert all(outcome.ok for outcome in fan_out(calls, 20.0, http=http).values())
    assert (counts.most, counts.requests) == (2, 8)


# ── http.aggregate ───────────────────────────────────────────────────────────────────────────────────
@pytest.fixture
def set_up(settings, tmp_path):
    """set_up(prices=url, …) makes these the services that there are."""
    settings.WEIGHBRIDGE_DATA_DIR = tmp_path

    def set_up(**urls: str) -> None:
        settings.WEIGHBRIDGE_SERVICES = {name: {"base_url": url, "places": 6} for name, url in urls.items()}

    return set_up


def run(http: Http, params: dict[str, object]) -> dict[str, Any]:
    ctx = create_autospec(JobContext, instance=True)
    ctx.params = AggregateParams.model_validate(params)
    ctx.remaining = http.deadline.remaining
    ctx.fan_out = partial(fan_out, http=http)
    return aggregate(ctx)


def test_answers_are_put_together_and_the_late_are_named(services, http, set_up):
    quick, counts = services.add(answering())
    text, _ = services.add(answering(body=b"hello", kind="text/plain"))
    slow, _ = services.add(hanging)
    set_up(prices=f"{quick}/v1/", notes=text, slow=slow)
    calls = {
        "p": {"service": "prices", "path": "/latest", "query": {"currency": "E R", "n": 2}, "required": True},
        "n": {"service": "notes"},
        "s": {"service": "slow"},
    }
    result = run(http, {"calls": calls, "deadline_seconds": 0.5})
    assert result["partial"] is True
    assert result["results"]["p"] == {"ok": True, "status": 200, "data": {"answer": 42}}
    assert result["results"]["n"] == {"ok": True, "status": 200, "data": "hello"}
    assert result["results"]["s"]["ok"] is False
    assert result["results"]["s"]["error"]["code"] == "deadline_exceeded"
    assert counts.heads[0].startswith(b"GET /v1/latest?currency=E+R&n=2 HTTP/1.1\r\n")


def test_a_whole_result_is_not_partial(services, http, set_up):
    url, _ = services.add(answering())
    set_up(prices=url)
    assert run(http, {"calls": {"p": {"service": "prices"}}})["partial"] is False
    assert run(http, {"calls": {}}) == {"partial": False, "results": {}}


@pytest.mark.parametrize(("body", "code"), [
    (b'"\\u0000"', "bad_answer"), (b'"\\ud800"', "bad_answer"), (b'"' + b"x" * 600_000 + b'"', "body_too_large"),
    (b'"' + b"\\t" * 400_000 + b'"', "body_too_large"),
])  # fmt: skip
def test_an_answer_that_cannot_be_kept_costs_only_itself(services, http, set_up, body, code):
    bad, _ = services.add(answering(body=body))
    good, _ = services.add(answering())
    set_up(bad=bad, good=good)
    results = run(http, {"calls": {"b": {"service": "bad"}, "g": {"service": "good"}}})["results"]
    assert (results["b"]["error"]["code"], results["g"]["ok"]) == (code, True)
    with pytest.raises(RequiredCallFailed):
        run(http, {"calls": {"b": {"service": "bad", "required": True}, "g": {"service": "good"}}})


@pytest.mark.parametrize(("asked", "remaining", "seconds"), [
    (1.2, 10.0, 1.2), (None, 10.0, 9.5), (60.0, 10.0, 9.5), (60.0, 1.0, 0.8), (None, 0.0, 0.0),
])  # fmt: skip
def test_it_waits_as_long_as_asked_but_short_of_the_jobs_limit(asked, remaining, seconds):
    assert seconds_to_wait(asked, remaining) == pytest.approx(seconds)


@pytest.mark.parametrize("path", ["/", "/a/b.json", "/a%20b", "/a/", "/~me/@x:y;v=1", "/...", "/a..b", "/" + "a" * 999])
def test_takes_a_path_that_stays_below_the_address(set_up, path):
    set_up(prices="http://127.0.0.1:1")
    assert AggregateParams.model_validate({"calls": {"a": {"service": "prices", "path": path}}}).calls["a"].path == path


@pytest.mark.parametrize("path", [
    "", "a", "http://evil/", "//evil/", "/a//b", "/../secret", "/a/..", "/./a", "/a/%2e%2e/b", "/%2E./b", "/a%2fb",
    "/a%5cb", "/a\\b", "/a\r\nX: 1", "/a%0d%0aX: 1", "/a%00", "/a b", "/a?b", "/a#b", "/a%", "/a%zz", "/a%252e%252e/b",
    "/ü", "/a\n", "@evil/", ":80@evil/", "/" + "a" * 1000,
])  # fmt: skip
def test_refuses_a_path_with_a_trick(set_up, path):
    set_up(prices="http://127.0.0.1:1")
    with pytest.raises(ValidationError) as refused:
        AggregateParams.model_validate({"calls": {"a": {"service": "prices", "path": path}}})
    assert [error["loc"] for error in refused.value.errors()] == [("calls", "a", "path")]


@pytest.mark.parametrize("call", [
    {}, {"service": "prices", "url": "http://evil"}, {"service": "prices", "base_url": "x"}, {"service": 1},
    {"service": "prices", "query": {"a": math.inf}}, {"service": "prices", "query": {"a\r\n": 1}},
    {"service": "prices", "query": {"a": [1]}}, {"service": "prices", "required": "yes"},
])  # fmt: skip
def test_refuses_a_call_that_is_not_one(set_up, call):
    set_up(prices="http://127.0.0.1:1")
    with pytest.raises(ValidationError):
        AggregateParams.model_validate({"calls": {"a": call}})


def test_an_unknown_service_is_refused_in_a_sentence_with_those_there_are(set_up):
    set_up(stock="http://127.0.0.1:1", prices="http://127.0.0.1:1")
    with pytest.raises(ValidationError, match=r"There is no service 'price'; there are: prices, stock\."):
        AggregateParams.model_validate({"calls": {"a": {"service": "price"}}})


@pytest.mark.parametrize(("count", "fits"), [(20, True), (21, False)])
def test_takes_twenty_calls(set_up, count, fits):
    set_up(prices="http://127.0.0.1:1")
    params = {"calls": {str(number): {"service": "prices"} for number in range(count)}}
    if fits:
        AggregateParams.model_validate(params)
    else:
        with pytest.raises(ValidationError):
            AggregateParams.model_validate(params)


@pytest.mark.parametrize("seconds", [0, -1, math.nan, math.inf, "1"])
def test_refuses_a_deadline_that_is_none(seconds):
    with pytest.raises(ValidationError):
        AggregateParams.model_validate({"calls": {}, "deadline_seconds": seconds})


GOOD = {"base_url": "http://127.0.0.1:1", "places": 6}


def test_services_of_one_pool_share_its_places(settings):
    settings.WEIGHBRIDGE_SERVICES = {"a": {**GOOD, "pool": "fast"}, "b": {**GOOD, "pool": "fast"}, "c": GOOD}
    assert {name: service.pool for name, service in set_up_services().items()} == {
        "a": "fast", "b": "fast", "c": "c",
    }  # fmt: skip


@pytest.mark.parametrize(("wrong", "sentence"), [
    ([], "WEIGHBRIDGE_SERVICES is"),
    ({"a b": GOOD}, "A name in WEIGHBRIDGE_SERVICES is 'a b'"),
    ({"a\n": GOOD}, "A name in WEIGHBRIDGE_SERVICES is 'a"),
    ({"a": {**GOOD, "pool": "p\n"}}, "\\['pool'\\] is 'p"),
    ({"a": "http://x"}, "WEIGHBRIDGE_SERVICES\\['a'\\] is"),
    ({"a": {"base_url": "http://x"}}, "a dictionary of base_url, places"),
    ({"a": {**GOOD, "place": 1}}, "a dictionary of base_url, places"),
    ({"a": {**GOOD, "places": 0}}, "\\['places'\\] is 0, but must be a whole number from 1 to 100"),
    ({"a": {**GOOD, "pool": ""}}, "\\['pool'\\] is ''"),
    ({"a": {**GOOD, "pool": "p"}, "b": {**GOOD, "pool": "p", "places": 5}}, "5, but must be 6, as the other services"),
    *(({"a": {**GOOD, "base_url": url}}, "\\['base_url'\\] is") for url in (
        "", "x", "ftp://x", "http://", "http://x?y", "http://x#y", "http://x:port", "http://x\r\n", "http://x y", None)),
])  # fmt: skip
def test_a_wrong_setting_is_refused_in_a_sentence(settings, wrong, sentence):
    settings.WEIGHBRIDGE_SERVICES = wrong
    with pytest.raises(WrongSetting, match=sentence):
        set_up_services()


def test_the_example_is_valid_whatever_is_set_up(set_up):
    for urls in ({}, {"prices": "http://127.0.0.1:1"}):
        set_up(**urls)
        AggregateParams.model_validate(http_aggregate.EXAMPLE)


def test_a_wrong_setting_stops_no_import_and_is_told_by_the_check(settings, monkeypatch):
    settings.WEIGHBRIDGE_SERVICES = {"a": {"base_url": "x", "places": 1}}
    monkeypatch.setattr(registry, "_types", {})
    runpy.run_path(http_aggregate.__file__)
    assert registry.names() == ["http.aggregate"]
    assert [error.id for error in checks.the_services_can_be_called()] == ["workers.E002"]


def test_a_call_is_repeated_within_the_fan_out_when_the_job_is_not(services):
    url, counts = services.add(in_turn(answering(status="503 Busy"), answering()))
    http = Http(Deadline.after(20), "0193-job", job_retries=False, jitter=lambda: 0.0)
    assert fan_out({"a": Call(url)}, 10.0, http=http)["a"].ok
    assert counts.requests == 2


@pytest.mark.parametrize(
    ("parts", "error"),
    [
        ({"headers": 'Content-Disposition: attachment; filename="r\u00e9sum\u00e9.json"\r\n'}, None),
        ({"kind": "text/plain; charset=base64", "body": b"plain"}, "bad_answer"),
        ({"kind": "text/plain; charset=rot13", "body": b"plain"}, "bad_answer"),
        ({"body": b"[1e999]"}, "bad_answer"),
        ({"headers": "Content-Encoding: gzip, gzip\r\n", "body": b"\x1f\x8b"}, "bad_answer"),
    ],
    ids=["a header in UTF-8", "no charset", "another", "no number", "encoded twice"],
)
def test_whatever_one_service_sends_costs_no_other_its_answer(services, http, parts, error):
    odd, _ = services.add(answering(**parts))
    good, _ = services.add(answering())
    outcomes = fan_out({"odd": Call(odd), "good": Call(good)}, 10.0, http=http)
    assert outcomes["good"].data == {"answer": 42}
    assert outcomes["odd"].error == error
