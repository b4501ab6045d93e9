"""What became of it, as text and as JSON. No Django."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from workers.planning.reasons import share
from workers.simulating.figures import Figures, Report

MOST_CLIENTS = 20  # in the text: those that offered most
_COLUMNS = (
    "",
    "offered",
    "admitted",
    "refused",
    "gave up",
    "expired",
    "mean wait",
    "p50",
    "p95",
    "p99",
    "busy",
    "goodput",
    "honest",
)


def as_json(report: Report) -> dict[str, Any]:
    return asdict(report)


def as_text(report: Report) -> str:
    parts = [f"{report.jobs:,} jobs came in {report.seconds:,.0f} s.", "", *_table("class", report.classes)]
    if set(report.kinds) != set(report.classes):
        parts += ["", *_table("load", report.kinds)]
    if set(report.clients) not in (set(report.classes), set(report.kinds)):
        most = sorted(report.clients, key=lambda name: -report.clients[name].offered)[:MOST_CLIENTS]
        parts += ["", *_table("client", {name: report.clients[name] for name in most})]
        if len(most) < len(report.clients):
            parts.append(f"… and {len(report.clients) - len(most)} clients more; --format json has all.")
    return "\n".join(parts)


def _table(heading: str, rows: Mapping[str, Figures]) -> list[str]:
    table = [(heading, *_COLUMNS[1:]), *(_row(name, figures) for name, figures in rows.items())]
    widths = [max(len(row[column]) for row in table) for column in range(len(_COLUMNS))]
    return ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in table]


def _row(name: str, of: Figures) -> tuple[str, ...]:
    waits = (of.mean_wait_seconds, of.p50_wait_seconds, of.p95_wait_seconds, of.p99_wait_seconds)
    return (
        name,
        f"{of.offered:,}",
        f"{of.admitted:,}",
        share(of.refused_share),
        share(of.gave_up_share),
        share(of.expired_share),
        *("-" if wait is None else f"{wait:.3g} s" for wait in waits),
        f"{of.busy_slots:.3g}" if of.utilisation is None else f"{of.utilisation:.1%}",
        f"{of.goodput_per_second:.3g}/s",
        "-" if of.honest_share is None else share(of.honest_share),
    )
