"""What may befall a stack. Each nemesis aims at processes of that stack only, acts, sees its effect, and is undone.

with afflicted(history, stack, PauseNode("worker-heavy")):
    …                                # it has had its effect; undone at the end, and the stack ready again
"""

import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar
from uuid import uuid4

from stack.local import Stack
from tests.history.events import BodyBegan, BodyEnded, NemesisBegan, NemesisEnded, NemesisHit
from tests.history.nodes import READY_SECONDS, node, serving, state_of, wait_until_back, web_processes
from tests.history.recorder import History, now
from tests.processes import lives, with_descendants
from tests.waiting import eventually

EFFECT_SECONDS = 20.0  # by then a nemesis has had its effect, on a machine that has much to do
PDEATHSIG_SECONDS = 5.0


class Nemesis(ABC):
    act: ClassVar[str]
    back_seconds: float = READY_SECONDS  # until the stack is whole again, once it is undone

    @property
    def name(self) -> str:
        return type(self).__name__

    @abstractmethod
    def aim(self, stack: Stack) -> tuple[int, ...]:
        """Every process that will die, end or stand still by it; the first is the one that is signalled, if one is."""

    @abstractmethod
    def apply(self, stack: Stack, pids: tuple[int, ...]) -> str:
        """Act, and say what shows that it hit. Raises AssertionError if nothing does."""

    def undo(self, stack: Stack, pids: tuple[int, ...]) -> None:  # noqa: B027  most acts are over when they are done
        """Take it back, if it lasts."""

    def recovered(self, stack: Stack) -> None:
        """Wait until the stack is whole again."""
        stack.wait_ready(self.back_seconds)


@contextmanager
def afflicted(history: History, stack: Stack, nemesis: Nemesis) -> Iterator[tuple[int, ...]]:
    """The stack under a nemesis, all of it in the history; the pids aimed at."""
    pids = nemesis.aim(stack)
    strike = f"{nemesis.name}-{uuid4().hex[:8]}"
    history.append(NemesisBegan(strike, nemesis.name, nemesis.act, pids, now()))
    try:
        history.append(NemesisHit(strike, nemesis.apply(stack, pids), now()))
        yield pids
    finally:
        nemesis.undo(stack, pids)
        history.append(NemesisEnded(strike, now()))
        nemesis.recovered(stack)


def busy_by(history: History) -> Callable[[tuple[int, ...]], int | None]:
    """Finds the child that is inside a body, if one is."""

    def busy(children: tuple[int, ...]) -> int | None:
        inside: dict[int, bool] = {}
        for event in history.events(BodyBegan, BodyEnded):
            if isinstance(event, BodyBegan | BodyEnded):
                inside[event.pid] = isinstance(event, BodyBegan)
        return next((child for child in children if inside.get(child) and lives(child)), None)

    return busy


# --- kill −9 and TERM ---------------------------------------------------------------------------------------------


class Kill(Nemesis):
    """SIGKILL to the first of `aim`; the others die by it."""

    act = "kill"

    def kill(self, pids: tuple[int, ...]) -> None:
        os.kill(pids[0], signal.SIGKILL)

    def apply(self, stack: Stack, pids: tuple[int, ...]) -> str:
        self.kill(pids)
        eventually(lambda: not any(map(lives, pids)), PDEATHSIG_SECONDS)
        return f"{', '.join(map(str, pids))} ended"


@dataclass(frozen=True)
class KillChild(Kill):
    """A pool child; `choose` picks it among the node's children (None: not yet), else it is the first."""

    program: str
    choose: Callable[[tuple[int, ...]], int | None] = lambda children: children[0]

    def aim(self, stack: Stack) -> tuple[int, ...]:
        return tuple(with_descendants(eventually(lambda: self._held(stack), EFFECT_SECONDS, 0.01)))

    def _held(self, stack: Stack) -> int:
        """The child, standing still so that it is still the right one when it is killed; 0 if it no longer was."""
        child = self.choose(node(stack, self.program).children)
        if not child:
            return 0
        signal_all((child,), signal.SIGSTOP)
        eventually(lambda: state_of(child) in STILL)
        if lives(child) and self.choose((child,)) == child:
            return child
        signal_all((child,), signal.SIGCONT)
        return 0

    def recovered(self, stack: Stack) -> None:
        wait_until_back(stack, self.program)


@dataclass(frozen=True)
class KillParent(Kill):
    """Celery's parent process. Its children go with it; its keeper ends by itself."""

    program: str

    def aim(self, stack: Stack) -> tuple[int, ...]:
        return tuple(with_descendants(node(stack, self.program).parent))

    def recovered(self, stack: Stack) -> None:
        wait_until_back(stack, self.program)


@dataclass(frozen=True)
class KillKeeper(Kill):
    """The keeper, and with it the whole node."""

    program: str

    def aim(self, stack: Stack) -> tuple[int, ...]:
        return node(stack, self.program).pids

    def recovered(self, stack: Stack) -> None:
        wait_until_back(stack, self.program)


@dataclass(frozen=True)
class KillNode(Kill):
    """Every process of a node at once, as an out-of-memory killer that knows no mercy would."""

    program: str

    def aim(self, stack: Stack) -> tuple[int, ...]:
        return node(stack, self.program).pids

    def kill(self, pids: tuple[int, ...]) -> None:
        signal_all(pids, signal.SIGKILL)

    def recovered(self, stack: Stack) -> None:
        wait_until_back(stack, self.program)


@dataclass(frozen=True)
class KillWebProcess(Kill):
    """One of the processes that serve requests."""

    def aim(self, stack: Stack) -> tuple[int, ...]:
        return (eventually(lambda: serving(stack), EFFECT_SECONDS)[0],)

    def recovered(self, stack: Stack) -> None:
        eventually(lambda: len(serving(stack)) == web_processes(stack), READY_SECONDS)
        stack.wait_ready(READY_SECONDS)


@dataclass(frozen=True)
class KillProgram(Kill):
    """The main process of a program that is no worker: beat, web."""

    program: str

    def aim(self, stack: Stack) -> tuple[int, ...]:
        return (stack.pid(self.program),)


@dataclass(frozen=True)
class Terminate(Nemesis):
    """TERM to a worker's keeper, as a process manager does; it is then started anew."""

    act = "term"
    program: str
    grace_seconds: float

    def aim(self, stack: Stack) -> tuple[int, ...]:
        return node(stack, self.program).pids

    def terminate(self, pids: tuple[int, ...]) -> None:
        os.kill(pids[0], signal.SIGTERM)

    def apply(self, stack: Stack, pids: tuple[int, ...]) -> str:
        self.terminate(pids)
        eventually(lambda: not any(map(lives, pids)), self.grace_seconds + EFFECT_SECONDS)
        return f"{', '.join(map(str, pids))} ended"

    def recovered(self, stack: Stack) -> None:
        wait_until_back(stack, self.program)


class TerminateAll(Terminate):
    """TERM to every process of a worker at once, as systemd does unless it is told otherwise."""

    def terminate(self, pids: tuple[int, ...]) -> None:
        signal_all(pids, signal.SIGTERM)


class Away(Nemesis):
    """Programs that are stopped in order, all at once, and started again when it is undone."""

    act = "stop"

    def __init__(self, *programs: str, back_seconds: float = 60.0) -> None:
        self.programs, self.back_seconds = programs, back_seconds

    def aim(self, stack: Stack) -> tuple[int, ...]:
        return tuple(pid for program in self.programs for pid in with_descendants(stack.pid(program)))

    def apply(self, stack: Stack, pids: tuple[int, ...]) -> str:
        with ThreadPoolExecutor(len(self.programs)) as threads:
            list(threads.map(stack.stop_program, self.programs))
        assert not any(map(lives, pids)), f"of {pids} some live on"
        return f"{', '.join(map(str, pids))} ended"

    def undo(self, stack: Stack, pids: tuple[int, ...]) -> None:
        with ThreadPoolExecutor(len(self.programs)) as threads:
            list(threads.map(stack.start_program, self.programs))


# --- SIGSTOP ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PauseNode(Nemesis):
    """Keeper, parent and children stand still together until it is undone."""

    act = "pause"
    program: str

    def aim(self, stack: Stack) -> tuple[int, ...]:
        return node(stack, self.program).pids

    def apply(self, stack: Stack, pids: tuple[int, ...]) -> str:
        signal_all(pids, signal.SIGSTOP)  # the keeper first, so that it sees nothing of the rest
        eventually(lambda: all(state_of(pid) in STILL for pid in pids), EFFECT_SECONDS)
        assert state_of(pids[0]) == "T", f"the keeper {pids[0]} is {state_of(pids[0])}"
        return f"{', '.join(map(str, pids))} stand still"

    def undo(self, stack: Stack, pids: tuple[int, ...]) -> None:
        signal_all(pids, signal.SIGCONT)

    def recovered(self, stack: Stack) -> None:
        wait_until_back(stack, self.program)


@dataclass(frozen=True)
class PauseKeeper(PauseNode):
    """The keeper alone: nobody renews, cancels or ends what the rest of its node runs."""

    def apply(self, stack: Stack, pids: tuple[int, ...]) -> str:
        signal_all(pids[:1], signal.SIGSTOP)
        eventually(lambda: state_of(pids[0]) == "T", EFFECT_SECONDS)
        return f"{pids[0]} stands still"

    def undo(self, stack: Stack, pids: tuple[int, ...]) -> None:
        signal_all(pids[:1], signal.SIGCONT)


@dataclass(frozen=True)
class PauseParent(PauseKeeper):
    """Celery's parent alone: it consumes nothing, and replaces no child."""

    def aim(self, stack: Stack) -> tuple[int, ...]:
        return tuple(with_descendants(node(stack, self.program).parent))


STILL = {"T", "Z", "gone"}


def signal_all(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
