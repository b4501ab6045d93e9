"""Owners take turns, whoever of them asks for many at once; and no turn is lost."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from project.fair_turns import FairTurns


def play(part: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(part, 20))


async def _asked(turns: FairTurns, owner: str, within_seconds: float = 10) -> "asyncio.Task[bool]":
    task = asyncio.create_task(turns.got(owner, within_seconds))
    await asyncio.sleep(0)
    return task


def test_owners_take_turns_and_each_is_served_in_its_own_order() -> None:
    async def scene() -> None:
        turns, served = FairTurns(1), list[str]()
        assert await turns.got("a", 1)
        assert turns.all_taken
        asked = [(name, await _asked(turns, name[0])) for name in ("a1", "a2", "a3", "b1", "c1", "b2")]
        for _ in asked:
            turns.give_back()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            served += [name for name, task in asked if task.done() and name not in served]
        assert served == ["a1", "b1", "c1", "a2", "b2", "a3"]
        assert all(task.result() for _, task in asked)
        turns.give_back()
        assert not turns.all_taken

    play(scene())


def test_who_waits_too_long_has_no_turn_and_takes_nobodys() -> None:
    async def scene() -> None:
        turns = FairTurns(1)
        assert await turns.got("a", 1)
        assert not await turns.got("b", 0.01)
        turns.give_back()
        assert not turns.all_taken

    play(scene())


def test_a_turn_that_is_given_in_the_moment_in_which_its_owner_goes_is_given_on() -> None:
    async def scene() -> None:
        turns = FairTurns(1)
        assert await turns.got("a", 1)
        leaves, stays = await _asked(turns, "b"), await _asked(turns, "c")
        turns.give_back()
        leaves.cancel()
        assert await stays
        assert leaves.cancelled()
        turns.give_back()
        assert not turns.all_taken

    play(scene())


def test_a_turn_that_is_given_in_the_moment_in_which_the_time_is_over_is_had() -> None:
    async def scene() -> None:
        turns = FairTurns(1)
        assert await turns.got("a", 1)
        loop = asyncio.get_running_loop()
        late = asyncio.create_task(turns.got("b", 0.02))
        await asyncio.sleep(0)
        end = loop.time() + 0.05
        while loop.time() < end:  # the loop stands still over the end of the time
            pass
        turns.give_back()
        assert await late
        turns.give_back()
        assert not turns.all_taken

    play(scene())
