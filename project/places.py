"""Places for what many callers would have at once, shared out so that no one of them has all."""

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Share:
    """places: in all. of_one: of one owner."""

    places: int
    of_one: int


class Taken(Exception):
    """There is no place. `status`: 429 if its owner has all that it may have, 503 if others have them."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Places:
    """Touched by the event loop alone. What belongs to nobody is all of one owner."""

    def __init__(self, share: Share) -> None:
        self._share = share
        self._of: Counter[Hashable] = Counter()

    @property
    def taken(self) -> int:
        return self._of.total()

    @contextmanager
    def one_of(self, owner: Hashable) -> Iterator[None]:
        """Raises Taken."""
        if self._of[owner] >= self._share.of_one:
            raise Taken(429)
        if self.taken >= self._share.places:
            raise Taken(503)
        self._of[owner] += 1
        try:
            yield
        finally:
            self._of[owner] -= 1
            self._of += Counter()  # forgets those who have none
