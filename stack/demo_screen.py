"""What the demo shows: live progress, the table of jobs, the burst's figures."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from typing import Any, TextIO

from stack.demo_burst import BurstReport, Pace, Timing
from stack.demo_jobs import Visit


class Screen:
    """Live progress: redrawn in place on a terminal, else one line for each change."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._in_place = stream.isatty()
        self._shown: list[str] = []

    def show(self, visits: Sequence[Visit]) -> None:
        lines = [_progress_line(visit) for visit in visits]
        if self._in_place:
            self._redraw([line[: shutil.get_terminal_size().columns - 1] for line in lines])
        else:
            self._append(lines)
        self._shown = lines

    def _redraw(self, lines: list[str]) -> None:
        up = f"\x1b[{len(self._shown)}A" if self._shown else ""
        self._stream.write(up + "".join(f"\x1b[2K{line}\n" for line in lines))
        self._stream.flush()

    def _append(self, lines: list[str]) -> None:
        before = self._shown or [""] * len(lines)
        for old, new in zip(before, lines, strict=True):
            if new != old:
                print(new.rstrip(), file=self._stream, flush=True)


def _progress_line(visit: Visit) -> str:
    state = visit.job["state"]
    progress = visit.job.get("progress") or {}
    fraction = 1.0 if state == "succeeded" else float(progress.get("fraction") or 0.0)
    filled = round(fraction * 20)
    note = progress.get("note") or ""
    return f"  {visit.type:<20} {visit.job['cost_class']:<7} {state:<10} [{'#' * filled}{'.' * (20 - filled)}] {fraction:4.0%}  {note}"


HEADINGS = ("job", "class", "state", "wait s", "run s", "CPU s", "what came out")


def table(visits: Sequence[Visit]) -> list[str]:
    rows = [HEADINGS, *(_row(visit) for visit in visits)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    lines = [_aligned(row, widths) for row in rows]
    return [lines[0], "  ".join("-" * width for width in widths), *lines[1:]]


def _row(visit: Visit) -> tuple[str, ...]:
    timings = visit.job.get("timings") or {}
    figures = (_figure(timings.get(f"{name}_seconds")) for name in ("wait", "run", "cpu"))
    return (visit.type, visit.job["cost_class"], visit.job["state"], *figures, outcome(visit.job))


def _figure(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.2f}"


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    """Words to the left, figures to the right."""
    cells = [
        cell.rjust(width) if 3 <= column <= 5 else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(cells).rstrip()


def outcome(job: dict[str, Any]) -> str:
    """A job's result in a few words, or why it has none."""
    result = job.get("result")
    if job.get("error"):
        return f"{job['error']['code']}: {job['error'].get('message') or ''}".strip()
    if isinstance(result, dict) and "tour" in result:
        return f"a tour of {len(result['tour'])} stops, length {result['length']} (best possible: 7542)"
    text = _in_words(result)
    files = [f"{one['name']} {_size(one['bytes'])}" for one in job.get("artifacts") or ()]
    return "; ".join([text, *files])


def _in_words(result: Any) -> str:
    if isinstance(result, dict) and "columns" in result:
        numeric = sum(column["numeric"] for column in result["columns"])
        return f"{result['rows']} rows, {len(result['columns'])} columns, {numeric} of them numbers"
    if isinstance(result, dict) and "method" in result:
        return f"a map of {' × '.join(map(str, result['shape']))}, by {result['method']}"
    text = json.dumps(result, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _size(size_bytes: int) -> str:
    return f"{max(1, round(size_bytes / 1000))} kB"


def burst_lines(report: BurstReport) -> list[str]:
    span = f", Retry-After {_range(report.retry_after)} s" if report.retry_after else ""
    return [
        f"  heavy jobs sent at once   {report.sent} (room for {report.room})",
        f"  accepted (202)            {report.accepted}",
        f"  refused (503)             {report.refused}{span}",
        "",
        "                            before the burst            during the burst",
        *_pace_lines(report.before, report.during),
        "",
        "  What was left of the burst is cancelled; the class heavy is "
        + ("empty again." if report.drained else "NOT empty."),
    ]


def _range(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low} to {high}"


def _pace_lines(before: Pace, during: Pace) -> list[str]:
    pairs = [("light job, there and back", before.light, during.light), ("/healthz", before.healthz, during.healthz)]
    return [f"  {name:<26}{_span(old):<28}{_span(new)}" for name, old, new in pairs]


def _span(timing: Timing) -> str:
    return f"p50 {timing.p50 * 1000:.0f} ms, p95 {timing.p95 * 1000:.0f} ms"
