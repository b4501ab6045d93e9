"""Places are shared out: no owner has all, and who may wait for one does so for a while."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from project.places import Places, Share, Taken

T = TypeVar("T")


def play(part: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(part, 20))


def test_one_owner_has_its_share_of_the_places_and_others_the_rest() -> None:
    places = Places(Share(3, 2))
    with places.one_of("a"), places.one_of("a"):
        with pytest.raises(Taken) as taken, places.one_of("a"):
            pass
        assert taken.value.status == 429
        with places.one_of("b"):
            with pytest.raises(Taken) as taken, places.one_of("c"):
                pass
            assert taken.value.status == 503
        with places.one_of("c"):
            assert places.taken == 3
    assert places.taken == 0
    assert not places._of


def test_what_is_refused_is_not_taken_and_what_was_taken_is_given_back_at_once() -> None:
    places = Places(Share(10, 6))
    with places.some_of("a") as some:
        some.more(4)
        with pytest.raises(Taken):
            some.more(3)
        some.at_least(5)
        some.at_least(2)
        assert places.taken == 5
    assert places.taken == 0


def test_who_waits_has_its_places_when_they_are_given_back() -> None:
    places = Places(Share(10, 6))

    async def scene() -> int:
        with places.some_of("a") as some:
            some.more(6)
            waiting = asyncio.create_task(_have(places, "a", 4))
            while not places._waiting:
                await asyncio.sleep(0)
        return await waiting

    assert play(scene()) == 4
    assert places.taken == 0


async def _have(places: Places, owner: str, many: int) -> int:
    with places.some_of(owner) as some:
        await some.more_within(10, many)
        return places.taken


@pytest.mark.parametrize(("owner", "status"), [("a", 429), ("b", 503)])
def test_nobody_waits_for_ever_and_is_told_who_has_them(owner: str, status: int) -> None:
    places = Places(Share(10, 6))

    async def scene() -> int:
        with places.some_of("a") as first, places.some_of("c") as second, places.some_of(owner) as mine:
            first.more(6)
            second.more(4)
            with pytest.raises(Taken) as taken:
                await mine.more_within(0.02, 1)
            return taken.value.status

    assert play(scene()) == status


def test_for_more_than_a_share_nobody_waits() -> None:
    async def scene() -> None:
        with Places(Share(10, 6)).some_of("a") as mine:
            await mine.more_within(3600, 7)

    with pytest.raises(Taken):
        play(scene())
