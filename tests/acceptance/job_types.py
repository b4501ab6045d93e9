"""Job types that write down what they did, for the acceptance tests to count."""

import os
import time
from pathlib import Path

from pydantic import BaseModel

from workers import JobContext, job


class NoteParams(BaseModel):
    """`diary` is a file; each body appends one line when it begins and one when it ends."""

    diary: str
    name: str
    seconds: float = 0.0
    cost_class: str = "light"


@job("tests.note", cost_class=lambda params: params.cost_class, params=NoteParams)
def note(ctx: JobContext[NoteParams]) -> dict[str, str]:
    """Say that it began, work for a while, say that it ended."""
    _append(ctx, "begin")
    time.sleep(ctx.params.seconds)  # the work itself
    _append(ctx, "end")
    return {"name": ctx.params.name}


def _append(ctx: JobContext[NoteParams], what: str) -> None:
    # One write of one short line to a file opened for appending is not torn.
    line = f"{what} {ctx.params.name} {ctx.job_id} {ctx.attempt} {os.getpid()} {time.monotonic():.6f}\n"
    with Path(ctx.params.diary).open("a") as file:
        file.write(line)
