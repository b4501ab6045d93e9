"""Turns at something of which there are only so many at once."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Hashable


class FairTurns:
    """What asyncio.Semaphore is, but owners take turns: who asks for hundreds at once waits for its own, and others only for one of them. Touched by the event loop
    alone."""

    def __init__(self, many: int) -> None:
        self._free = many
        self._waiting: OrderedDict[Hashable, deque[asyncio.Future[None]]] = OrderedDict()

    @property
    def all_taken(self) -> bool:
        return not self._free

    async def got(self, owner: Hashable, within_seconds: float) -> bool:
        """Whether it came to its turn in that time; whoever did gives it back."""
        if self._free:
            self._free -= 1
            return True
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(turn)
        try:
            async with asyncio.timeout(within_seconds):
                await turn
        except TimeoutError:
            return _is_given(turn)  # it may have been in that very moment
        except asyncio.CancelledError:
            if _is_given(turn):
                self.give_back()
            raise
        finally:
            self._forget(owner, turn)
        return True

    def give_back(self) -> None:
        """To the owner that has waited longest for one, and its longest waiting."""
        while self._waiting:
            owner, turns = self._waiting.popitem(last=False)
            turn = turns.popleft()
            if turns:
                self._waiting[owner] = turns
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def _forget(self, owner: Hashable, turn: "asyncio.Future[None]") -> None:
        turns = self._waiting.get(owner)
        if turns is not None and turn in turns:
            turns.remove(turn)
            if not turns:
                del self._waiting[owner]


def _is_given(turn: "asyncio.Future[None]") -> bool:
    return turn.done() and not turn.cancelled()
