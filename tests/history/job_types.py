"""The job type whose bodies tests count, and what makes the bodies of any type write into a history."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from tests.history.events import BodyBegan, BodyEnded, NemesisBegan
from tests.history.recorder import History, now
from workers import JobContext, job

_STEP_SECONDS = 0.02  # between two checks, so that a cancel or an open gate is met soon


class RecordedParams(BaseModel):
    """`history` is a file, named by the client that records; without one nothing is written."""

    history: str = ""


@contextmanager
def recorded(ctx: JobContext[Any], name: str = "") -> Iterator[None]:
    """Say that a body began, let it work, say how it ended."""
    if not ctx.params.history:
        yield
        return
    history, body = History(Path(ctx.params.history)), (str(ctx.job_id), ctx.attempt, os.getpid())
    with _alive(history, str(ctx.job_id)) as alone:
        history.append(BodyBegan(*body, alone, now(), name))
        how = "returned"
        try:
            yield
        except BaseException as error:
            how = type(error).__name__
            raise
        finally:
            history.append(BodyEnded(*body, how, now()))


@contextmanager
def _alive(history: History, job_id: str) -> Iterator[bool]:
    """Hold the job's lock while its body lives; whether nobody else held it. The kernel lets go of a dead body's."""
    folder = history.path.with_suffix(".alive")
    folder.mkdir(exist_ok=True)
    with (folder / job_id).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def own_hand(ctx: JobContext[Any], how: str) -> None:
    """To be said by a body just before it does what ends its process: it is a nemesis of its own."""
    if ctx.params.history:
        strike = NemesisBegan(f"{how}-{ctx.job_id}-{ctx.attempt}", how, "kill", (os.getpid(),), now())
        History(Path(ctx.params.history)).append(strike)


class NoteParams(RecordedParams):
    """A body goes on once the file `gate` exists, works for `seconds`, checking its context; one that `fails` raises."""

    name: str = ""
    seconds: float = 0.0
    cost_class: str = "light"
    gate: str = ""
    fails: bool = False


@job("tests.note", cost_class=lambda params: params.cost_class, params=NoteParams)
def note(ctx: JobContext[NoteParams]) -> dict[str, str]:
    with recorded(ctx, ctx.params.name):
        _work(ctx)
    return {"name": ctx.params.name}


def _work(ctx: JobContext[NoteParams]) -> None:
    while ctx.params.gate and not Path(ctx.params.gate).exists():
        time.sleep(_STEP_SECONDS)  # bounded by the limits of the job, or by whoever kills its process
    until = now() + ctx.params.seconds
    while (left := until - now()) > 0:
        time.sleep(min(left, _STEP_SECONDS))  # the work itself
        ctx.check()
    if ctx.params.fails:
        raise RuntimeError(ctx.params.name)


class LeaveParams(BaseModel):
    bytes: int = 1


@job("tests.leaves", cost_class="light", params=LeaveParams)
def leaves(ctx: JobContext[LeaveParams]) -> None:
    """A file of so many bytes."""
    with ctx.artifacts.create("left.bin") as file:
        for first in range(0, ctx.params.bytes, 65_536):
            file.write(b"x" * min(65_536, ctx.params.bytes - first))
