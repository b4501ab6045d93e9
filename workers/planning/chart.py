"""A plan as a picture: what callers of this size meet as the load changes. Loaded only where one is drawn: Matplotlib takes a second."""

import os
from pathlib import Path

from django.conf import settings

from workers.planning.advice import Plan
from workers.planning.queueing import Prediction, predict

_LOADS = [n / 20 for n in range(2, 41)]  # from a tenth of what the slots can do to twice


def draw(plan: Plan, file: Path, title: str) -> None:
    """Refusals and waits over the arrival rate, as PNG. Raises OSError where it cannot be written."""
    # What it finds out about the machine's fonts takes seconds; kept, it is found out once.
    os.environ.setdefault("MPLCONFIGDIR", str(settings.WEIGHBRIDGE_DATA_DIR / "matplotlib"))
    from matplotlib.figure import Figure  # without pyplot: no global state, and no display

    rates, found = _over_rates(plan)
    figure = Figure(figsize=(8, 7), layout="constrained")
    refused, waits = figure.subplots(2, 1, sharex=True)
    figure.suptitle(title, parse_math=False)
    refused.plot(rates, [100 * each.refusal_share for each in found])
    refused.set_ylabel("refused, %")
    for name in ("p50", "p95", "p99"):
        waits.plot(rates, [getattr(each, f"{name}_wait_seconds") for each in found], label=name)
    if plan.question.wait_target is not None:
        waits.axhline(plan.question.wait_target, color="grey", linestyle=":", label="target")
    waits.set_ylabel("wait of those admitted, s")
    waits.set_xlabel("jobs a second")
    for axes in (refused, waits):
        axes.axvline(plan.question.load.rate, color="grey", linestyle="--", label="asked for")
        axes.grid(alpha=0.3)
    waits.legend()
    figure.savefig(file, format="png", dpi=100)


def _over_rates(plan: Plan) -> tuple[list[float], list[Prediction]]:
    load, size = plan.question.load, plan.size
    full = size.slots / load.service_seconds
    rates = sorted({*(part * full for part in _LOADS), load.rate})
    return rates, [predict(rate, load.service_seconds, size.slots, size.max_waiting) for rate in rates]
