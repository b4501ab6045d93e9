"""Places for what many callers would have at once, shared out so that no one of them has all."""

import asyncio
from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Share:
    """places: in all. of_one: of one owner."""

    places: int
    of_one: int


class Refused(Exception):
    """The server answers this request itself, with `status`."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Taken(Refused):
    """There is no place. `status`: 429 if its owner has all that it may have, 503 if others have them."""


class Places:
    """Touched by the event loop alone. What belongs to nobody is all of one owner."""

    def __init__(self, share: Share) -> None:
        self.share = share
        self._of: Counter[Hashable] = Counter()
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def taken(self) -> int:
        return self._of.total()

    @contextmanager
    def one_of(self, owner: Hashable) -> Iterator[None]:
        """Raises Taken."""
        with self.some_of(owner) as some:
            some.more(1)
            yield

    @contextmanager
    def some_of(self, owner: Hashable) -> Iterator["Some"]:
        """None at first; what is taken is given back at the end."""
        some = Some(self, owner)
        try:
            yield some
        finally:
            self._give_back(owner, some.many)

    def _take(self, owner: Hashable, many: int) -> None:
        if self._of[owner] + many > self.share.of_one:
            raise Taken(429)
        if self.taken + many > self.share.places:
            raise Taken(503)
        self._of[owner] += many

    def _give_back(self, owner: Hashable, many: int) -> None:
        self._of[owner] -= many
        self._of += Counter()  # forgets those who have none
        for one in self._waiting:
            if not one.done():
                one.set_result(None)
        self._waiting.clear()

    async def _some_given_back(self) -> None:
        given = asyncio.get_running_loop().create_future()
        self._waiting.append(given)
        await given


class Some:
    """What one holder has of the places of its owner."""

    def __init__(self, places: Places, owner: Hashable) -> None:
        self._places, self._owner, self.many = places, owner, 0

    def more(self, many: int) -> None:
        """Raises Taken."""
        self._places._take(self._owner, many)
        self.many += many

    def at_least(self, many: int) -> None:
        """Raises Taken."""
        if many > self.many:
            self.more(many - self.many)

    async def more_within(self, seconds: float, many: int) -> None:
        """Waits for them so long, in the order of those who wait. Raises Taken.

        Only for who has none yet: of those who wait with some in hand each might wait for the others.
        """
        if many > self._places.share.of_one:
            raise Taken(429)
        refused = Taken(503)
        try:
            async with asyncio.timeout(seconds):
                while True:
                    try:
                        return self.more(many)
                    except Taken as taken:
                        refused = taken
                    await self._places._some_given_back()
        except TimeoutError:
            raise refused from None
