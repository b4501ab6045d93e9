"""Where a key is needed, nothing is kept of a stranger's body, and no caller's bodies take the room of another's."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from project.limits import Limits
from project.places import Share
from project.serving import ThreadBridge
from tests.unit.http_wire import Message, Wire, ask, own_answer, part, scope

MOST_BYTES = 50
ROOM = Share(100, MOST_BYTES)
OPEN = "/open"  # takes bodies of strangers too


class Told(list[bytes]):
    """A WSGI response that says whose request it was."""

    owner: str | None = None


class Guarded:
    """Lets in who has one of the `good` keys, and says so before the body is there. `asked`: of each request the body, None for one without."""

    def __init__(self, *good: str) -> None:
        self.good = set(good)
        self.asked: list[bytes | None] = []

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        first = "arrived" in environ
        body = environ["wsgi.input"].read()
        self.asked.append(None if first else body)
        answer, key = Told([b"told"]), environ.get("HTTP_AUTHORIZATION", "")
        if environ["PATH_INFO"] != OPEN and key not in self.good:
            start_response("401 Unauthorized", [])
            return answer
        answer.owner = key or None
        start_response("100 Continue" if first else "200 OK", [])
        return answer


def bridge(application: Any, share: Share = ROOM, **limits: Any) -> ThreadBridge:
    needs_key = lambda path: path != OPEN  # noqa: E731
    return ThreadBridge(
        application,
        own_answer,
        Limits(lambda path: MOST_BYTES, lambda path: True, held=share, needs_key=needs_key, **limits),
    )


def sending(key: str | None = None, path: str = "/jobs", length: int | None = 40, **headers: str) -> Message:
    told = {} if length is None else {"Content-Length": str(length)}
    return scope(path=path, headers=told | headers | ({} if key is None else {"Authorization": key}))


@pytest.mark.parametrize("key", [None, "made-up"])
def test_a_stranger_s_body_is_thrown_away_and_its_answer_can_be_read(key: str | None) -> None:
    guarded = Guarded("good")
    wire = Wire(part(b"x" * 20, more=True), part(b"x" * 20))
    asyncio.run(bridge(guarded, Share(0, 0))(sending(key), wire.receive, wire.send))
    assert (wire.status, wire.body, wire.read) == (401, b"told", 2)
    assert guarded.asked == [None]


def test_a_stranger_who_waits_for_leave_to_send_is_refused_without_being_asked_to() -> None:
    wire = Wire(part(b"x" * 40))
    asyncio.run(bridge(Guarded())(sending("made-up", Expect="100-continue"), wire.receive, wire.send))
    assert (wire.status, wire.read) == (401, 0)


def test_a_key_is_asked_about_once_and_again_when_it_is_refused() -> None:
    guarded = Guarded("good")
    asked = bridge(guarded)
    for number in range(3):
        assert ask(asked, sending("good", length=1), part(b"%d" % number)).status == 200
    assert guarded.asked == [None, b"0", b"1", b"2"]
    guarded.good.clear()
    assert ask(asked, sending("good", length=1), part(b"3")).status == 401  # it was revoked
    assert ask(asked, sending("good", length=1), part(b"4")).status == 401
    assert guarded.asked[4:] == [b"3", None]


@pytest.mark.parametrize(
    ("given", "asked_first"),
    [
        (sending("good", length=40), True),
        (sending("good", length=None, **{"Transfer-Encoding": "chunked"}), True),
        (sending("good", length=0), False),
        (sending("good", length=None), False),
        (sending("good", OPEN, length=40), False),
        ({**sending("good", length=None), "http_version": "2"}, True),
    ],
)
def test_only_what_may_have_a_body_and_needs_a_key_is_asked_about_first(given: Message, asked_first: bool) -> None:
    guarded = Guarded("good")
    assert ask(bridge(guarded), given, part(b"x")).status == 200
    assert guarded.asked == ([None] if asked_first else []) + [b"x"]


class Slow(Wire):
    """Sends some, and then nothing until it is given up."""

    def __init__(self, some: bytes) -> None:
        super().__init__(part(some, more=True))


@pytest.mark.parametrize("lengths_are_told", [True, False])
@pytest.mark.parametrize(
    ("slow", "path", "refused", "served"),
    [(None, OPEN, [None], ["good"]), ("good", "/jobs", ["good"], ["other", None])],
)
def test_who_holds_a_share_of_the_room_leaves_the_rest_to_others(
    slow: str | None, path: str, refused: list[str | None], served: list[str | None], lengths_are_told: bool
) -> None:
    """Of 100 bytes one caller has 50, and so have all strangers together."""
    asked = bridge(Guarded("good", "other"), wait_seconds=0.02)
    length = 40 if lengths_are_told else None

    async def answered(key: str | None, given_path: str) -> int:
        wire = Wire(part(b"x" * 40))
        await asked(sending(key, given_path, 40), wire.receive, wire.send)
        return wire.status

    async def scene() -> tuple[list[int], list[int]]:
        for key in ("good", "other"):  # so that they are known
            assert await answered(key, "/jobs") == 200
        one = Slow(b"x" * 40)
        going = asyncio.ensure_future(asked(sending(slow, path, length), one.receive, one.send))
        while asked._bodies.held.taken < 40:
            await asyncio.sleep(0.005)
        paths = {key: OPEN if key is None else "/jobs" for key in (*refused, *served)}
        told = [[await answered(key, paths[key]) for key in some] for some in (refused, served)]
        going.cancel()
        await asyncio.wait([going])
        return told[0], told[1]

    told = asyncio.run(asyncio.wait_for(scene(), 20))
    assert told == ([503] * len(refused), [200] * len(served))
    assert asked._bodies.held.taken == 0


def test_bodies_that_are_together_more_than_a_share_wait_for_one_another() -> None:
    """Twenty of 40 bytes, of a client that may hold 50, each in two pieces that come by turns: each is whole some time."""
    asked = bridge(Guarded("good"), threads=1)

    async def scene() -> list[int]:
        wires = [Wire(part(b"x" * 20, more=True), part(b"x" * 20)) for _ in range(20)]
        await asyncio.gather(*(asked(sending("good"), one.receive, one.send) for one in wires))
        return [one.status for one in wires]

    assert asyncio.run(asyncio.wait_for(scene(), 20)) == [200] * 20
    assert asked._bodies.held.taken == 0


def test_a_body_whose_length_is_a_lie_holds_what_it_is() -> None:
    """No HTTP server passes one on; if one did, it would still be bounded."""
    asked = bridge(Guarded("good"), Share(100, 30))
    assert ask(asked, sending("good", length=10), part(b"x" * 40)).status == 503
    assert asked._bodies.held.taken == 0
