"""ctx.http against services of this machine: bounded in every step, repeating only what is safe, leaving nothing."""

import asyncio
import gzip
import logging
import math
import socket
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from tests.acceptance import slow_services
from tests.acceptance.slow_services import (
    answer,
    answering,
    connections_to,
    dripping,
    hanging,
    in_turn,
    resetting,
)
from tests.unit.http_calls import Stopped, client, make_client, no_thread_remains, pauses, services
from tests.waiting import eventually
from workers import names
from workers.bulkheads import Bulkhead
from workers.deadlines import Deadline, DeadlineExceeded
from workers.fanout import fan_out
from workers.http import BadAnswer, BodyTooLarge, Call, ConnectionLost, Http, ServiceUnavailable, Unreachable, WrongCall

__all__ = ["client", "pauses", "services"]


def sent(counts: slow_services.Counts) -> dict[str, str]:
    """The headers of the last request."""
    lines = counts.heads[-1].decode().split("\r\n")[1:]
    return {name.lower(): value for name, _, value in (line.partition(": ") for line in lines if line)}


def test_an_answer_comes_whole(services, client):
    url, counts = services.add(answering(headers="X-Kind: a\r\nX-Kind: b\r\n"))
    response = client.get(f"{url}/latest", params={"currency": "EUR"}, headers={"X-Own": "1"})
    assert (response.status_code, response.json(), response.http_version) == (200, {"answer": 42}, "HTTP/1.1")
    assert response.headers.get_list("X-Kind") == ["a", "b"]
    assert response.elapsed > timedelta(0)
    assert counts.heads[0].startswith(b"GET /latest?currency=EUR HTTP/1.1\r\n")
    assert sent(counts)["x-own"] == "1"


def test_a_compressed_body_is_given_decoded_and_described_so(services, client):
    url, _ = services.add(answering(body=gzip.compress(b"x" * 5000), headers="Content-Encoding: gzip\r\n"))
    response = client.get(url)
    assert response.content == b"x" * 5000
    assert "content-encoding" not in response.headers
    assert response.headers["content-length"] == "5000"


def test_a_body_is_sent(services, client):
    async def echoing(head, reader, writer):
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        writer.write(answer(await reader.readexactly(length)))

    url, _ = services.add(echoing)
    assert client.post(url, json={"n": 1}).json() == {"n": 1}
    assert client.request("PUT", url, content="[2]").json() == [2]


@pytest.mark.parametrize("status", ["404 Not Found", "500 Internal Server Error", "429 Slow Down", "302 Found"])
def test_any_other_status_is_an_answer_and_is_not_repeated(services, client, status):
    url, counts = services.add(answering(status=status, headers="Location: http://127.0.0.1:1/\r\n"))
    assert client.get(url).status_code == int(status[:3])
    assert counts.requests == 1


def test_the_job_and_its_remaining_milliseconds_go_along_and_cannot_be_replaced(services):
    url, counts = services.add(answering())
    client = Http(Deadline(10.0, clock=lambda: 8.7654), "0193-job", job_retries=False)
    client.get(url, headers={"x-deadline-ms": "99", "X-WEIGHBRIDGE-JOB": "other"})
    assert (sent(counts)["x-weighbridge-job"], sent(counts)["x-deadline-ms"]) == ("0193-job", "1234")


def test_the_trace_of_the_request_goes_along_unless_the_handler_says_its_own(services, pauses):
    url, counts = services.add(answering())
    given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    client = make_client(pauses, traceparent=given)
    client.get(url)
    assert sent(counts)["traceparent"][:36] == given[:36]
    assert sent(counts)["traceparent"] != given
    client.get(url, headers={"traceparent": given})
    assert sent(counts)["traceparent"] == given
    make_client(pauses).get(url)
    assert "traceparent" not in sent(counts)


def test_a_call_sends_its_own_timeout_when_that_is_sooner(services, client):
    url, counts = services.add(answering())
    client.get(url, timeout=5)
    assert 0 <= int(sent(counts)["x-deadline-ms"]) <= 5000


def test_without_a_deadline_none_is_sent(services, pauses):
    url, counts = services.add(answering())
    assert make_client(pauses, math.inf).get(url).status_code == 200
    assert "x-deadline-ms" not in sent(counts)


def test_a_proxy_of_the_environment_is_not_used(services, client, monkeypatch):
    url, counts = services.add(answering())
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert client.get(url).status_code == 200
    assert counts.requests == 1


def test_urls_with_their_queries_are_not_logged(services, client, caplog):
    url, _ = services.add(answering())
    with caplog.at_level(logging.INFO):
        client.get(f"{url}/?token=secret")
    assert "secret" not in caplog.text


# ── Bounds ───────────────────────────────────────────────────────────────────────────────────────────
@pytest.fixture
def full_backlog() -> Iterator[str]:
    """An address whose connections are neither accepted nor refused."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        waiting = [socket.socket() for _ in range(16)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(listening.getsockname())
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        for one in waiting:
            one.close()


def test_every_step_ends_at_the_deadline_and_leaves_nothing(services, full_backlog, tmp_path, monkeypatch):
    """All at once, each stuck in another step: they end together, a second after they began."""
    monkeypatch.setattr(names, "RESOLVER", "import time; time.sleep(600)")
    never_answers, _ = services.add(hanging)
    drips, _ = services.add(dripping)
    unavailable, _ = services.add(answering(status="503 Busy"))
    calls = {
        "connect": Call(full_backlog),
        "tls": Call(never_answers.replace("http:", "https:")),
        "write": Call(never_answers.replace("http:", "https:"), method="POST", content=b"x" * 10_000_000),
        "read": Call(never_answers),
        "body": Call(drips),
        "name": Call("http://stuck.invalid/"),
        "place": Call(never_answers, bulkhead=Bulkhead(tmp_path, "full", 1)),
        "pause": Call(unavailable),
    }
    client = Http(Deadline.after(60), "job", job_retries=False, jitter=lambda: 0.0, sleep=lambda _: asyncio.sleep(60))
    with Bulkhead(tmp_path, "full", 1).hold(Deadline.after(1)):
        started_at = time.monotonic()
        outcomes = fan_out(calls, 1.0, http=client)
        elapsed = time.monotonic() - started_at
    assert {name: outcome.error for name, outcome in outcomes.items()} == dict.fromkeys(calls, "deadline_exceeded")
    assert 1.0 <= elapsed < 2.0
    assert connections_to(never_answers, drips, unavailable) == 0
    assert no_thread_remains()


def test_a_body_that_drips_is_ended_and_its_service_sees_it(services, client):
    url, counts = services.add(dripping)
    with pytest.raises(DeadlineExceeded, match=r"http://127.0.0.1:\d+ gave no whole answer within 0\.(29\d|300) s\."):
        client.get(f"{url}/path?secret", timeout=0.3)
    assert connections_to(url) == 0
    eventually(lambda: counts.open_connections == 0)


@pytest.mark.parametrize("timeout", [0.0, -1.0])
def test_without_time_left_nothing_is_sent(services, client, timeout):
    url, counts = services.add(answering())
    with pytest.raises(DeadlineExceeded, match="No time is left"):
        client.get(url, timeout=timeout)
    assert counts.connections == 0


@pytest.mark.parametrize(("size", "fits"), [(1000, True), (1001, False)])
@pytest.mark.parametrize("packed", [False, True])
def test_a_body_is_read_up_to_its_cap(services, client, size, fits, packed):
    body, headers = (gzip.compress(b"x" * size), "Content-Encoding: gzip\r\n") if packed else (b"x" * size, "")
    url, _ = services.add(answering(body=body, headers=headers))
    if fits:
        assert len(client.get(url, max_body_bytes=1000).content) == size
    else:
        with pytest.raises(BodyTooLarge, match="larger than 1000 bytes"):
            client.get(url, max_body_bytes=1000)
    assert connections_to(url) == 0


# ── Tries ────────────────────────────────────────────────────────────────────────────────────────────
UNAVAILABLE = answering(status="503 Busy")


@pytest.mark.parametrize("first", [resetting, *(answering(status=f"{status} Busy") for status in (502, 503, 504))])
def test_what_may_pass_is_tried_again(services, client, pauses, first):
    url, counts = services.add(in_turn(first, first, answering()))
    assert client.get(url).json() == {"answer": 42}
    assert counts.requests == 3
    assert pauses == [0.05, 0.1]  # half, as the jitter says, of 0.1 and 0.2


def test_three_tries_are_all(services, client):
    url, counts = services.add(UNAVAILABLE)
    with pytest.raises(ServiceUnavailable, match="answered 503") as refused:
        client.get(url)
    assert (counts.requests, refused.value.response.status_code, refused.value.retryable) == (3, 503, True)


@pytest.mark.parametrize("first", [UNAVAILABLE, resetting])
@pytest.mark.parametrize(("method", "headers", "requests"), [
    ("GET", {}, 3), ("PUT", {}, 3), ("DELETE", {}, 3), ("HEAD", {}, 3),
    ("POST", {}, 1), ("PATCH", {}, 1), ("POST", {"idempotency-key": "k"}, 3),
])  # fmt: skip
def test_only_what_is_safe_to_repeat_is_repeated(services, client, first, method, headers, requests):
    url, counts = services.add(first)
    with pytest.raises((ServiceUnavailable, ConnectionLost)):
        client.request(method, url, headers=headers)
    assert counts.requests == requests


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_refused_connection_is_tried_again_for_any_method_because_nothing_was_sent(client, pauses, method):
    with pytest.raises(Unreachable, match=r"http://127\.0\.0\.1:1 could not be reached: .+\."):
        client.request(method, "http://127.0.0.1:1/path?secret")
    assert len(pauses) == 2


def test_nothing_is_repeated_when_the_job_itself_is(services, pauses):
    url, counts = services.add(UNAVAILABLE)
    with pytest.raises(ServiceUnavailable):
        make_client(pauses, job_retries=True).get(url)
    with pytest.raises(Unreachable):
        make_client(pauses, job_retries=True).get("http://127.0.0.1:1")
    assert (counts.requests, pauses) == (1, [])


def test_an_answer_that_breaks_off_is_not_repeated(services, client):
    async def breaking_off(head, reader, writer):
        writer.write(answer()[:-3])

    url, counts = services.add(breaking_off)
    with pytest.raises(ConnectionLost) as lost:
        client.get(url)
    assert (counts.requests, lost.value.answered) == (1, True)


def at(seconds: float) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


@pytest.mark.parametrize(("retry_after", "pause"), [
    ("7", 7.05), ("0", 0.05), ("-1", 0.05), ("soon", 0.05), ("1.5", 0.05), ("9" * 12, 0.05), ("Sun, 06 Nov 1994 08:49:37 GMT", 0.05), ("", 0.05),
])  # fmt: skip
def test_a_pause_is_at_least_what_the_service_asks(services, client, pauses, retry_after, pause):
    url, _ = services.add(in_turn(answering(status="503 Busy", headers=f"Retry-After: {retry_after}\r\n"), answering()))
    client.get(url)
    assert pauses == [pause]


def test_a_pause_until_an_instant(services, client, pauses):
    headers = f"Retry-After: {at(10)}\r\n"
    url, _ = services.add(in_turn(answering(status="503 Busy", headers=headers), answering()))
    client.get(url)
    assert 0 < pauses[0] <= 10.05


@pytest.mark.parametrize(("retry_after", "requests"), [("20", 2), ("40", 1)])
def test_a_pause_that_does_not_fit_is_not_begun(services, client, pauses, retry_after, requests):
    busy = answering(status="503 Busy", headers=f"Retry-After: {retry_after}\r\n")
    url, counts = services.add(in_turn(busy, answering()))
    try:
        client.get(url)
    except ServiceUnavailable as refused:
        assert refused.retry_after_seconds == 40  # for the author to act on
    assert counts.requests == requests


def test_pauses_have_full_jitter_and_a_longest():
    def pause(jitter: float, tries: int) -> float | None:
        client = make_client([], jitter=lambda: jitter)
        client._most_tries = 100
        return client._pause(Call("http://a"), Unreachable("x"), tries, Deadline.after(60))

    assert [pause(0.0, 1), pause(1.0, 1), pause(1.0, 2), pause(1.0, 3), pause(1.0, 50)] == [0.0, 0.1, 0.2, 0.4, 2.0]


def test_a_pause_ends_when_the_job_is_cancelled(services):
    url, _ = services.add(answering(status="503 Busy", headers="Retry-After: 25\r\n"))
    asleep = threading.Event()

    async def sleep(seconds: float) -> None:
        asleep.set()
        await asyncio.sleep(seconds)

    def check() -> None:
        if asleep.is_set():
            raise Stopped

    started_at = time.monotonic()
    with pytest.raises(Stopped):
        Http(Deadline.after(60), "job", job_retries=False, check=check, sleep=sleep).get(url)
    assert time.monotonic() - started_at < 10


def test_a_place_is_not_held_during_a_pause(services, tmp_path):
    bulkhead = Bulkhead(tmp_path, "prices", 1)
    taken = []

    async def sleep(seconds: float) -> None:
        async with bulkhead.place(Deadline.after(0.5)):
            taken.append(True)

    url, _ = services.add(in_turn(UNAVAILABLE, answering()))
    Http(Deadline.after(30), "job", job_retries=False, sleep=sleep).get(url, bulkhead=bulkhead)
    assert taken == [True]


# ── Wrong answers, wrong calls ───────────────────────────────────────────────────────────────────────
def test_a_body_that_is_not_encoded_as_it_says_is_a_bad_answer(services, client):
    url, counts = services.add(answering(headers="Content-Encoding: gzip\r\n"))
    with pytest.raises(BadAnswer, match="not encoded"):
        client.get(url)
    assert counts.requests == 1


@pytest.mark.parametrize("url", ["", "prices.example", "ftp://prices.example", "http://", "//host/x", "http://a\r\nb/"])
def test_a_url_that_cannot_be_called_is_refused(client, url):
    with pytest.raises(WrongCall, match="URL"):
        client.get(url)


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "ü\n", "a\0"])
def test_a_header_that_would_break_out_is_refused_without_being_shown(services, client, value):
    url, counts = services.add(answering())
    with pytest.raises(WrongCall) as refused:
        client.get(url, headers={"X-Token": value})
    assert value not in str(refused.value)
    assert counts.requests == 0


def test_a_password_in_a_url_is_not_in_sentences(client):
    with pytest.raises(Unreachable) as refused:
        client.get("http://me:secret@127.0.0.1:1/")
    assert "secret" not in str(refused.value)
