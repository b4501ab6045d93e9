"""Job type `probe.spin`, FOR TESTS AND LOAD: burns an amount of CPU time, however long that takes."""

import time

from workers import JobContext, job
from workers.catalog.probe_params import ProbeParams, class_asked_for

_SLICE_SECONDS = 0.01  # of CPU time, between two looks at cancel and limits


@job("probe.spin", cost_class=class_asked_for, params=ProbeParams, example={"seconds": 0.5, "cost_class": "light"})
def spin(ctx: JobContext[ProbeParams]) -> dict[str, float]:
    """Compute without a result, for tests and load. Returns {"spun_seconds": CPU time of this thread, at least what was asked, "elapsed_seconds": by the clock}."""
    seconds = ctx.params.seconds
    started_at, cpu_at_start = time.monotonic(), time.thread_time()
    while (spun := time.thread_time() - cpu_at_start) < seconds:
        if spun >= _SLICE_SECONDS:
            ctx.progress(spun / seconds)
        ctx.check()
        _burn(min(_SLICE_SECONDS, seconds - spun))
    return {"spun_seconds": spun, "elapsed_seconds": time.monotonic() - started_at}


def _burn(cpu_seconds: float) -> None:
    end = time.thread_time() + cpu_seconds
    while time.thread_time() < end:
        pass
