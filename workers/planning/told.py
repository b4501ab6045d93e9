"""A plan as text and as JSON. No Django."""

from dataclasses import asdict
from typing import Any

from workers.planning.advice import Plan
from workers.planning.reasons import seconds, share


def as_json(plan: Plan) -> dict[str, Any]:
    """The figures at the top, by the names of Prediction; then the size, the verdict and its reasons."""
    question, size = plan.question, plan.size
    memory = question.memory
    return {
        **asdict(size.prediction),
        "slots": size.slots,
        "max_waiting": size.max_waiting,
        "meets": plan.meets,
        "blocked": list(plan.blocked),
        "reasons": list(plan.reasons),
        "warnings": list(plan.warnings),
        "asked": {
            "rate": question.load.rate,
            "service_seconds": question.load.service_seconds,
            "wait_target_seconds": question.wait_target,
            "refusal_target": question.targets.refusal_share if question.targets else question.refusal_target,
        },
        "memory": None if memory is None else {**asdict(memory), "processes": memory.processes},
        "played": None if plan.played is None else asdict(plan.played),
    }


def as_text(plan: Plan) -> str:
    size, found = plan.size, plan.size.prediction
    rows = [
        ("processes", str(size.slots)),
        ("max_waiting", str(size.max_waiting)),
        ("refused", share(found.refusal_share)),
        ("mean wait", seconds(found.mean_wait_seconds)),
        ("p50 wait", seconds(found.p50_wait_seconds)),
        ("p95 wait", seconds(found.p95_wait_seconds)),
        ("p99 wait", seconds(found.p99_wait_seconds)),
        ("utilisation", f"{found.utilisation:.1%}"),
    ]
    lines = [f"{name:<12} {value}" for name, value in rows]
    for heading, sentences in (
        ("Why", plan.reasons),
        ("Beware", plan.warnings),
        ("Cannot meet what was asked for" if plan.blocked else "", plan.blocked),
    ):
        if sentences:
            lines += ["", f"{heading}:", *(f"  {sentence}" for sentence in sentences)]
    return "\n".join(lines)
