"""Bulkheads: never more places than there are, over processes, and none lost with a process (P29)."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from workers.bulkheads import Bulkhead, BulkheadFull
from workers.deadlines import Deadline

CHECKOUT = Path(__file__).parents[2]
# Takes a place again and again, and says when it has one and when it gives it back.
BUSY = """
import os, sys, time
from pathlib import Path
from workers.bulkheads import Bulkhead
from workers.deadlines import Deadline
directory, diary, turns = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
with diary.open("ab", buffering=0) as file:
    for _ in range(turns):
        with Bulkhead(directory, "prices", 3).hold(Deadline.after(60)):
            file.write(b"+")
            time.sleep(0.002)  # the call itself
            file.write(b"-")
"""
# Takes a place and holds on until it is killed.
HOLDING = """
import os, sys, time
from pathlib import Path
from workers.bulkheads import Bulkhead
from workers.deadlines import Deadline
with Bulkhead(Path(sys.argv[1]), "prices", 1).hold(Deadline.after(60)):
    print("held", flush=True)
    time.sleep(600)
"""


def soon(seconds: float = 0.05) -> Deadline:
    """For a place that is not to be had."""
    return Deadline.after(seconds)


def in_time() -> Deadline:
    """For a place that is free: no machine is too busy to take it by then."""
    return Deadline.after(30)


def python(code: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, cwd=CHECKOUT, text=True, stdout=subprocess.PIPE)


def is_full(bulkhead: Bulkhead) -> bool:
    try:
        with bulkhead.hold(soon(0.2)):  # time for a look, on any machine
            return False
    except BulkheadFull:
        return True


def test_processes_never_hold_more_places_than_there_are(tmp_path):
    """Each writes in one file, appended to in order; three at once must have been hit, or nothing was tested."""
    most = 0
    for round_ in range(10):  # on a busy machine three seldom meet
        diary = tmp_path / f"diary{round_}"
        busy = [python(BUSY, tmp_path / "places", diary, 30) for _ in range(6)]
        assert [process.wait(60) for process in busy] == [0] * 6
        most = max(most, _most_at_once(diary.read_bytes()))
        assert len(diary.read_bytes()) == 6 * 30 * 2
        if most >= 3:
            break
    assert most == 3


def _most_at_once(signs: bytes) -> int:
    at_once, most = 0, 0
    for sign in signs:
        at_once += 1 if sign == ord("+") else -1
        most = max(most, at_once)
    assert at_once == 0
    return most


def test_the_place_of_a_killed_process_is_free_at_once(tmp_path):
    bulkhead = Bulkhead(tmp_path, "prices", 1)
    with python(HOLDING, tmp_path) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert is_full(bulkhead)
        holder.send_signal(signal.SIGKILL)
        holder.wait(10)
        assert not is_full(bulkhead)


def test_a_child_forked_meanwhile_does_not_keep_the_place(tmp_path):
    bulkhead = Bulkhead(tmp_path, "prices", 1)
    reader, writer = os.pipe()
    with bulkhead.hold(in_time()):
        child = os.fork()
        if child == 0:
            os.close(writer)
            os.read(reader, 1)  # until the parent has looked, or is gone
            os._exit(0)
    try:
        assert not is_full(bulkhead)
    finally:
        os.close(writer)
        os.close(reader)
        os.waitpid(child, 0)


def test_two_calls_of_one_process_need_two_places(tmp_path):
    bulkhead = Bulkhead(tmp_path, "prices", 2)
    with bulkhead.hold(in_time()), bulkhead.hold(in_time()):
        assert is_full(bulkhead)
    assert not is_full(bulkhead)


def test_full_until_the_deadline_is_a_deadline_exceeded_and_leaves_no_file_open(tmp_path):
    bulkhead = Bulkhead(tmp_path, "prices", 1)
    with bulkhead.hold(in_time()):
        open_files = os.listdir("/proc/self/fd")
        with (
            pytest.raises(BulkheadFull, match="None of the 1 places of bulkhead 'prices' came free"),
            bulkhead.hold(soon()),
        ):
            pass
        assert os.listdir("/proc/self/fd") == open_files
    assert BulkheadFull.code == "deadline_exceeded"


def test_a_deadline_that_has_passed_takes_no_place_even_if_one_is_free(tmp_path):
    with pytest.raises(BulkheadFull), Bulkhead(tmp_path, "prices", 1).hold(Deadline.after(0)):
        pass


def test_who_waits_gets_the_place_when_it_comes_free(tmp_path):
    bulkhead = Bulkhead(tmp_path, "prices", 1)
    order = []

    async def first():
        async with bulkhead.place(Deadline.after(30)):
            order.append("first has it")
            await second_waits.wait()
            order.append("first gives it back")

    async def second():
        second_waits.set()
        async with bulkhead.place(Deadline.after(30)):
            order.append("second has it")

    async def both():
        holder = asyncio.create_task(first())
        await asyncio.sleep(0)  # one step: first has its place now
        await asyncio.gather(holder, second())

    second_waits = asyncio.Event()
    asyncio.run(both())
    assert order == ["first has it", "first gives it back", "second has it"]


@pytest.mark.parametrize("holding", [True, False])
def test_a_cancelled_task_holds_nothing(tmp_path, holding):
    bulkhead = Bulkhead(tmp_path, "prices", 1)

    async def cancelled():
        async with asyncio.timeout(0.02), bulkhead.place(Deadline.after(30)):
            await asyncio.sleep(30)

    if holding:
        with pytest.raises(TimeoutError):
            asyncio.run(cancelled())
    else:
        with bulkhead.hold(in_time()), pytest.raises(TimeoutError):
            asyncio.run(cancelled())
    assert not is_full(bulkhead)


def test_what_check_raises_ends_the_wait(tmp_path):
    class Stopped(BaseException):
        pass

    looks = []

    def check():
        looks.append(True)
        if len(looks) == 3:
            raise Stopped

    bulkhead = Bulkhead(tmp_path, "prices", 1)
    with bulkhead.hold(in_time()), pytest.raises(Stopped), bulkhead.hold(Deadline.after(60), check):
        pass
    assert not is_full(bulkhead)


def test_those_who_wait_look_at_different_instants(tmp_path):
    """Pauses grow, stay below their longest, and no two processes have the same."""
    bulkhead = Bulkhead(tmp_path, "prices", 1)
    looks = [next_pauses(bulkhead) for _ in range(20)]
    assert len({tuple(pauses) for pauses in looks}) == 20
    assert all(0 < pause <= 0.025 for pauses in looks for pause in pauses)
    assert all(pauses[0] < pauses[9] for pauses in looks)


def next_pauses(bulkhead: Bulkhead) -> list[float]:
    pauses = bulkhead._pauses(Deadline.after(60))
    return [next(pauses) for _ in range(10)]


@pytest.mark.parametrize("name", ["prices", "../../prices", "a/b", "..", "prices.0", "ü", "a b\n", "%2e"])
def test_any_name_stays_in_its_directory_and_is_its_own(tmp_path, name):
    directory = tmp_path / "below" / "places"
    with Bulkhead(directory, name, 1).hold(in_time()):
        assert is_full(Bulkhead(directory, name, 1))
        assert not is_full(Bulkhead(directory, f"{name}x", 1))
    assert {file.parent for file in tmp_path.rglob("*") if file.is_file()} == {directory}


@pytest.mark.parametrize(("name", "places"), [("p", 1), ("p", 100), ("p" * 200, 1)])
def test_takes_what_is_in_range(tmp_path, name, places):
    with Bulkhead(tmp_path, name, places).hold(in_time()):
        pass


@pytest.mark.parametrize(("name", "places"), [("p", 0), ("p", -1), ("p", 101), ("", 1), ("p" * 201, 1)])
def test_refuses_what_is_not(tmp_path, name, places):
    with pytest.raises(ValueError, match="must"):
        Bulkhead(tmp_path, name, places)
