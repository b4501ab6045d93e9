"""Job type `probe.sleep`, FOR TESTS AND LOAD: holds a worker process for a time and uses no CPU."""

import time

from workers import JobContext, job
from workers.catalog.probe_params import ProbeParams, class_asked_for

_STEP_SECONDS = 0.1  # between two looks at cancel and limits


@job("probe.sleep", cost_class=class_asked_for, params=ProbeParams, example={"seconds": 0.5, "cost_class": "light"})
def sleep(ctx: JobContext[ProbeParams]) -> dict[str, float]:
    """Sleep, for tests and load. Returns {"slept_seconds": measured, at least what was asked}. A sleep of at most 0.1 s reports no progress."""
    seconds = ctx.params.seconds
    started_at = time.monotonic()
    while (slept := time.monotonic() - started_at) < seconds:
        if slept >= _STEP_SECONDS:
            ctx.progress(slept / seconds)
        ctx.check()
        time.sleep(min(_STEP_SECONDS, seconds - slept))
    return {"slept_seconds": slept}
