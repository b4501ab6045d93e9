"""Bodies on their way to Django: whole before they take a thread, and bounded in size, time and number."""

import asyncio

import pytest

from project import bodies
from project.places import Share
from tests.unit.http_wire import GONE, Wire, ask, bridge, never, part, scope


def test_a_body_in_pieces_arrives_whole_and_with_its_length() -> None:
    wire = ask(bridge(), scope(), part(b"a" * 10, more=True), part(b"", more=True), part(b"b"))
    assert (wire.status, wire.body) == (200, b"a" * 10 + b"b")
    assert wire.headers == {"content-type": "text/plain", "content-length": "11"}


def test_where_django_would_take_a_large_body_for_an_empty_one_the_refusal_is_ours() -> None:
    wire = ask(bridge(never, body_bytes=25), scope(path="/form"), part(b"x" * 26))
    assert (wire.status, wire.body) == (413, b"ours")


def test_a_body_as_large_as_it_may_be_is_taken() -> None:
    assert ask(bridge(body_bytes=25), scope(), part(b"x" * 25)).body == b"x" * 25


@pytest.mark.parametrize(("path", "status"), [("/a", 200), ("/form", 413)])
def test_who_waits_for_leave_to_send_what_is_too_large_is_not_asked_to(path: str, status: int) -> None:
    """Django, here the echo, is told the length, and of a form nothing."""
    given = scope(path=path, headers={"Expect": "100-continue", "Content-Length": "26"})
    wire = ask(bridge(body_bytes=25), given)
    assert (wire.status, wire.read) == (status, 0)


def test_who_sends_for_ever_is_not_read_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "DRAINED_BYTES", 100)
    wire = Wire(*[part(b"x" * 30, more=True)] * 50)
    asyncio.run(bridge(body_bytes=25)(scope(), wire.receive, wire.send))
    assert wire.status == 200
    assert wire.read < 10


def test_a_body_that_does_not_come_in_time_is_told_so_and_takes_no_thread() -> None:
    wire = ask(bridge(never, body_seconds=0.05), scope(), part(b"a", more=True))
    assert (wire.status, wire.body) == (408, b"ours")


def test_of_a_body_that_breaks_off_nothing_is_passed_on_and_who_still_listens_is_told() -> None:
    """To the server it is one whether the caller went, closed its half, or sent chunks that are none."""
    wire = ask(bridge(never), scope(), part(b"a", more=True), GONE)
    assert (wire.status, wire.body) == (400, b"ours")


@pytest.mark.parametrize(
    "codings", [["gzip, chunked"], ["gzip", "chunked"], ["chunked", "chunked"], ["identity"], [""]]
)
def test_a_body_in_a_transfer_coding_of_its_own_is_refused_unread(codings: list[str]) -> None:
    given = scope()
    given["headers"] = [(b"transfer-encoding", coding.encode()) for coding in codings]
    wire = ask(bridge(never), given, part(b"a"))
    assert (wire.status, wire.body, wire.read) == (400, b"ours", 0)


def test_bodies_hold_no_more_than_all_of_them_may() -> None:
    """Two of 40 bytes fit in 100, a third does not; when they are done there is room again."""
    asked = bridge(held=Share(100, 100))

    async def three() -> list[Wire]:
        slow = [Wire(part(b"x" * 40, more=True)), Wire(part(b"x" * 40, more=True))]
        tasks = [asyncio.ensure_future(asked(scope(), one.receive, one.send)) for one in slow]
        while asked._bodies.held.taken < 80:
            await asyncio.sleep(0.005)
        third = Wire(part(b"x" * 40))
        await asked(scope(), third.receive, third.send)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        fourth = Wire(part(b"x" * 100))
        await asked(scope(), fourth.receive, fourth.send)
        return [third, fourth]

    third, fourth = asyncio.run(asyncio.wait_for(three(), 20))
    assert (third.status, third.body) == (503, b"ours")
    assert fourth.status == 200
