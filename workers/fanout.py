"""`fan_out`: several calls at once under one deadline, and what came of each by then.

found = ctx.fan_out({"prices": Call(url, bulkhead=…), "stock": Call(url)}, 1.2, required=["prices"])
found["stock"].data if found["stock"].ok else found["stock"].error
"""

import asyncio
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from jobs.storable import holds_infinity
from workers.deadlines import Deadline, DeadlineExceeded
from workers.http import BadAnswer, Call, CallFailed, Http, ServiceUnavailable


@dataclass(frozen=True)
class CallOutcome:
    """What came of one call.

    ok: a 2xx answer came in time; then `data` is its body, JSON as data and anything else as text.
    error: otherwise a code: deadline_exceeded, unreachable, connection_lost, unavailable, body_too_large, bad_answer,
    http_404 and its like for any other status, stopped (a required call failed first). message: one sentence.
    """

    ok: bool
    status: int | None = None
    data: Any = None
    error: str | None = None
    message: str = ""
    retryable: bool = False


class RequiredCallFailed(CallFailed):
    """A call that the job cannot do without failed; the others were stopped. `outcomes` has what there was."""

    code = "required_call_failed"

    def __init__(self, name: str, outcomes: Mapping[str, CallOutcome]) -> None:
        super().__init__(f"The required call {name!r} failed: {outcomes[name].message}")
        self.name = name
        self.outcomes = outcomes
        self.retryable = outcomes[name].retryable


def fan_out(
    calls: Mapping[str, Call], deadline: Deadline | float, *, http: Http, required: Collection[str] = ()
) -> dict[str, CallOutcome]:
    """Make all calls at once; return when each has its outcome, at the deadline (seconds from now) at the latest.

    Raises RequiredCallFailed as soon as a call named in `required` fails; one that is late has failed too. Each call
    waits for a place in its own bulkhead, so those behind a full one delay no other.
    """
    if unknown := set(required) - calls.keys():
        raise ValueError(f"Required, but not among the calls: {', '.join(sorted(unknown))}.")
    if not isinstance(deadline, Deadline):
        deadline = Deadline.after(deadline, http.deadline.clock)
    until = http.deadline.sooner(deadline)
    found = http.run(lambda: _all(calls, until, http, frozenset(required)), until)
    stopped = CallOutcome(False, error="stopped", message="A required call failed first.")
    outcomes = {name: found.get(name, stopped) for name in calls}
    failed = [name for name in required if not outcomes[name].ok and outcomes[name] is not stopped]
    if failed:
        raise RequiredCallFailed(failed[0], outcomes)
    return outcomes


async def _all(
    calls: Mapping[str, Call], deadline: Deadline, http: Http, required: frozenset[str]
) -> dict[str, CallOutcome]:
    """The outcomes by name; those that were stopped are missing."""
    names = {asyncio.create_task(_one(call, deadline, http)): name for name, call in calls.items()}
    pending, found = set(names), dict[str, CallOutcome]()
    try:
        while pending and all(found[name].ok for name in required & found.keys()):
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            found |= {names[task]: task.result() for task in done}
    finally:
        for task in pending:
            task.cancel()
        await asyncio.gather(*names, return_exceptions=True)
    return found


async def _one(call: Call, deadline: Deadline, http: Http) -> CallOutcome:
    try:
        response = await http.exchange(call, deadline)
        if response.is_success:
            return CallOutcome(True, response.status_code, _data(response, call))
    except ServiceUnavailable as error:
        return CallOutcome(False, error.response.status_code, None, error.code, str(error), error.retryable)
    except (CallFailed, DeadlineExceeded) as error:
        return CallOutcome(False, None, None, error.code, str(error), error.retryable)
    status = response.status_code
    return CallOutcome(False, status, None, f"http_{status}", f"{call.service} answered {status}.")


def _data(response: httpx.Response, call: Call) -> Any:
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        return _text(response, call)
    try:
        data = json.loads(response.content, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise BadAnswer(f"{call.service} sent a body that says it is JSON, but is not.") from None
    if holds_infinity(data):
        raise BadAnswer(f"{call.service} sent a number that is beyond all floating-point numbers.")
    return data


def _text(response: httpx.Response, call: Call) -> str:
    try:
        return response.text
    except Exception:  # whatever a codec raises that is named as the charset, and is none of text
        raise BadAnswer(f"{call.service} sent text in a charset that is none.") from None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")  # Python's reader takes NaN and Infinity, others do not
