"""Job types that write down what they did, for the acceptance tests to count."""

import os
import time
from pathlib import Path

from pydantic import BaseModel

from workers import JobContext, job

_LOOK_SECONDS = 0.02  # between two looks at a closed gate


class NoteParams(BaseModel):
    """`diary` is a file; each body appends one line when it begins and one when it ends.

    A body with a `gate` goes on only once that file exists; one that `fails` raises its own name.
    """

    diary: str
    name: str
    seconds: float = 0.0
    cost_class: str = "light"
    gate: str = ""
    fails: bool = False


@job("tests.note", cost_class=lambda params: params.cost_class, params=NoteParams)
def note(ctx: JobContext[NoteParams]) -> dict[str, str]:
    """Say that it began, work for a while, say that it ended."""
    _append(ctx, "begin")
    if ctx.params.gate:
        _wait_for(Path(ctx.params.gate))
    time.sleep(ctx.params.seconds)  # the work itself
    if ctx.params.fails:
        raise RuntimeError(ctx.params.name)
    _append(ctx, "end")
    return {"name": ctx.params.name}


def _wait_for(gate: Path) -> None:
    """Bounded by the limits of the job, or by whoever kills its process."""
    while not gate.exists():
        time.sleep(_LOOK_SECONDS)


def _append(ctx: JobContext[NoteParams], what: str) -> None:
    # One write of one short line to a file opened for appending is not torn.
    line = f"{what} {ctx.params.name} {ctx.job_id} {ctx.attempt} {os.getpid()} {time.monotonic():.6f}\n"
    with Path(ctx.params.diary).open("a") as file:
        file.write(line)
