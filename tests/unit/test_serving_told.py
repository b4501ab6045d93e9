"""However often a request is asked, it has one id, and is told of once: with the answer that is sent, or as one whose caller left."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from project.limits import Limits
from project.places import Share
from project.serving import ThreadBridge
from tests.unit.http_wire import GONE, Wire, ask, own_answer, part, scope
from tests.unit.test_holding import Hold, Line, until
from tests.unit.test_transfers_in_and_out import Kept


class Body(list[bytes]):
    """A WSGI response with whatever it is given to bear."""

    record: "Record"
    hold: Hold
    sink: Kept
    source: Kept


@dataclass
class Record:
    status: str
    earlier: Any
    told: list[str]

    def answered(self) -> None:
        self.told.append(self.status)

    def left(self) -> None:
        self.told.append("left")


@dataclass
class Recorded:
    """A WSGI application whose first answer bears a hold or a sink, if it has one; `then` is the second. `told` is what was told."""

    hold: Hold | None = None
    sink: Kept | None = None
    source: Kept | None = None
    then: str = "200 OK"
    pieces: int = 1
    told: list[str] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        self.asked.append(environ)
        status = self.then if len(self.asked) > 1 else "202 Accepted"
        start_response(status, [])
        body = Body([b"x"] * self.pieces)
        body.record = Record(status[:3], environ["earlier"], self.told)
        if len(self.asked) == 1 and self.hold is not None:
            body.hold = self.hold
        if len(self.asked) == 1 and self.sink is not None:
            body.sink = self.sink
        if self.source is not None:
            body.source = self.source
        return body

    @property
    def earlier(self) -> list[Any]:
        return [environ["earlier"] for environ in self.asked]

    @property
    def ids(self) -> set[str]:
        return {environ["HTTP_X_REQUEST_ID"] for environ in self.asked}


def bridge(told: Recorded, **limits: Any) -> ThreadBridge:
    names = iter(f"name-{number}" for number in range(100))
    return ThreadBridge(
        told,
        own_answer,
        Limits(lambda path: 1000, lambda path: True, streams=lambda method, path: path == "/uploads", **limits),
        named=lambda given: given or next(names),
    )


def asked_over(line: Wire, told: Recorded, **limits: Any) -> Any:
    return bridge(told, **limits)(scope(), line.receive, line.send)


@pytest.mark.parametrize("pieces", [1, 3])
def test_an_answer_that_is_sent_at_once_is_told_at_once(pieces: int) -> None:
    told = Recorded(pieces=pieces)
    ask(bridge(told), scope(), part(b""))
    assert (told.told, told.earlier) == (["202"], [None])


@pytest.mark.parametrize(
    ("then", "said"), [("200 OK", "200"), ("503 Service Unavailable", "202"), ("401 Unauthorized", "202")]
)
def test_of_two_answers_the_one_that_is_sent_is_told_and_knows_of_the_first(then: str, said: str) -> None:
    told = Recorded(Hold(seconds=0.02), then=then)
    line = Line()
    asyncio.run(asked_over(line, told))
    assert (line.status, told.told) == (int(said), [said])
    first, second = told.earlier
    assert (first, second.status) == (None, "202")


def test_of_a_caller_that_left_it_is_told_that_it_left() -> None:
    told = Recorded(Hold())

    async def scene() -> None:
        line = Line()
        answering = asyncio.create_task(asked_over(line, told))
        await until(lambda: told.asked)
        line.gone.set()
        await answering

    asyncio.run(asyncio.wait_for(scene(), 20))
    assert told.told == ["left"]


def test_the_first_answer_is_told_when_there_is_no_turn_for_a_second() -> None:
    told = Recorded(Hold())

    async def scene() -> Line:
        line, asked = Line(), bridge(told, threads=1, again_seconds=0.02)
        answering = asyncio.create_task(asked(scope(), line.receive, line.send))
        await until(lambda: told.asked and not asked._threads.turns.all_taken)
        assert await asked._threads.turns.got(None, 1)
        assert told.hold is not None
        told.hold.ended.set_result(None)
        await answering
        return line

    line = asyncio.run(asyncio.wait_for(scene(), 20))
    assert (line.status, told.told) == (202, ["202"])


def test_the_first_answer_is_told_when_the_server_stops() -> None:
    told = Recorded(Hold())

    async def scene() -> Line:
        line, asked = Line(), bridge(told)
        answering = asyncio.create_task(asked(scope(), line.receive, line.send))
        await until(lambda: told.asked)
        asked._wait_no_longer()
        await answering
        return line

    line = asyncio.run(asyncio.wait_for(scene(), 20))
    assert (line.status, told.told) == (202, ["202"])


def test_a_file_that_came_is_told_once_and_one_that_breaks_off_not_as_taken() -> None:
    """What is refused by the bridge itself is told by whoever makes its own answers."""
    whole, broken = Recorded(sink=Kept(), then="201 Created"), Recorded(sink=Kept())
    ask(bridge(whole), scope(path="/uploads"), part(b"file"))
    assert (whole.told, len(whole.asked)) == (["201"], 2)
    wire = ask(bridge(broken), scope(path="/uploads"), part(b"f", more=True), GONE)
    assert (wire.status, broken.told) == (400, [])


def test_a_file_that_goes_out_is_told_once_and_one_that_finds_no_place_not_as_sent() -> None:
    sent, refused = Recorded(source=Kept(content=b"file")), Recorded(source=Kept(content=b"file"))
    assert ask(bridge(sent), scope("GET"), part(b"")).body == b"file"
    assert sent.told == ["202"]
    wire = ask(bridge(refused, sent=Share(1, 0)), scope("GET"), part(b""))
    assert (wire.status, wire.body, refused.told) == (429, b"ours", [])


def test_all_that_is_made_of_a_request_bears_one_id() -> None:
    told = Recorded(Hold(seconds=0.02))
    asyncio.run(asked_over(Line(), told))
    assert told.ids == {"name-0"}
    broken = Recorded(sink=Kept())
    wire = ask(bridge(broken), scope(path="/uploads"), part(b"f", more=True), GONE)
    assert {wire.headers["x-request-id"]} == broken.ids == {"name-0"}


def test_the_id_is_the_caller_s_own_if_it_came_with_one() -> None:
    told = Recorded()
    ask(bridge(told), scope(headers={"X-Request-Id": "mine"}), part(b""))
    assert told.ids == {"mine"}
