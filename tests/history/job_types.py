"""The job type whose bodies write into the history that their params name."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel

from tests.history.events import BodyBegan, BodyEnded
from tests.history.recorder import History, now
from workers import JobContext, job

_STEP_SECONDS = 0.02  # between two checks, so that a cancel is met soon


class RecordedParams(BaseModel):
    """`history` is a file. A body works for `seconds`, checking its context; one that `fails` then raises."""

    history: str
    seconds: float = 0.0
    cost_class: str = "light"
    fails: bool = False


@job("tests.recorded", cost_class=lambda params: params.cost_class, params=RecordedParams)
def recorded(ctx: JobContext[RecordedParams]) -> dict[str, int]:
    """Say that it began, work for a while, say how it ended."""
    history, body = History(Path(ctx.params.history)), (str(ctx.job_id), ctx.attempt, os.getpid())
    with _alive(history, str(ctx.job_id)) as alone:
        history.append(BodyBegan(*body, alone, now()))
        how = "returned"
        try:
            _work(ctx)
        except BaseException as error:
            how = type(error).__name__
            raise
        finally:
            history.append(BodyEnded(*body, how, now()))
    return {"attempt": ctx.attempt}


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


def _work(ctx: JobContext[RecordedParams]) -> None:
    until = now() + ctx.params.seconds
    while (left := until - now()) > 0:
        time.sleep(min(left, _STEP_SECONDS))  # the work itself
        ctx.check()
    if ctx.params.fails:
        raise RuntimeError("asked to fail")
