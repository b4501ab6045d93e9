"""What an attempt's end means: a handler's result or exception, as an Outcome."""

import json
import traceback
from dataclasses import replace
from typing import Any

from jobs import classes
from jobs.lifecycle import Outcome
from jobs.states import State
from jobs.storable import depth, holds_nul, plain_text
from workers.failures import MESSAGE_LENGTH, Ended, Fail, JobCancelled, JobTimeout
from workers.retries import Retry, is_retryable

DETAIL_LENGTH = 65_536  # of a traceback the end is what tells
CANCELLED = "cancelled"  # the code of an attempt that heeded its cancel; its job has none
DEEPEST_RESULT = 200  # writers and readers of JSON give up between 500 and 1,000 levels, each at another


def of_result(result: object, cost_class: str) -> Outcome:
    """A result must be JSON that PostgreSQL can store, and no larger than its class allows."""
    try:
        text = json.dumps(result, allow_nan=False, ensure_ascii=False)
        size = len(text.encode())
    except Exception as error:  # whatever an odd object, or one that a thread still changes, raises while it is written
        return failed("bad_result", "The handler's result is not JSON-able data.", f"{type(error).__name__}: {error}")
    value = json.loads(text)
    if "\\u0000" in text and holds_nul(value):
        return failed("bad_result", "The handler's result holds the character U+0000, which cannot be stored.")
    if depth(value) > DEEPEST_RESULT:
        return failed("bad_result", f"The handler's result is nested deeper than {DEEPEST_RESULT} levels.")
    limit = classes.get(cost_class).result_bytes
    if size > limit:
        return failed("result_too_large", f"The result is {size} bytes; at most {limit} are kept.")
    return Outcome(State.SUCCEEDED, result=value)


def of_exception(error: BaseException, retry: Retry, deadline_came_first: bool, cancelled: bool) -> Outcome:
    """Callers read a Fail as it is; of anything else its class name only. Never raises.

    A JobCancelled that a handler raises although nobody has `cancelled` its job is an exception like any other.
    """
    try:
        return _of_exception(error, retry, deadline_came_first, cancelled)
    except Exception as odd:  # an error may have properties, or a Fail fields, that raise when they are read
        detail = f"{type(error).__name__}, which cannot be described: {type(odd).__name__}"
        return failed("handler_error", type(error).__name__, detail)


def _of_exception(error: BaseException, retry: Retry, deadline_came_first: bool, was_cancelled: bool) -> Outcome:
    detail = "".join(traceback.format_exception(error))
    if isinstance(error, JobTimeout):
        return timed_out(deadline_came_first, detail, retry)
    if isinstance(error, JobCancelled) and was_cancelled:
        return cancelled(detail)
    retryable = is_retryable(error, retry)
    if isinstance(error, Fail):
        return _of_fail(error, detail, retryable)
    return failed("handler_error", type(error).__name__, detail, retryable=retryable)


def cancelled(detail: str) -> Outcome:
    return failed(CANCELLED, "It was cancelled while it ran.", detail)


def timed_out(deadline_came_first: bool, detail: str, retry: Retry) -> Outcome:
    """Whoever ended it, the handler's JobTimeout, the watchdog or the keeper."""
    retryable = is_retryable(JobTimeout(), retry)
    if deadline_came_first:
        return failed("deadline", "Its deadline passed while it ran.", detail, retryable=retryable)
    return failed("timeout", "It ran longer than its limit and was ended.", detail, retryable=retryable)


def with_log(outcome: Outcome, text: str) -> Outcome:
    return replace(outcome, log=text)


def _of_fail(error: Fail, detail: str, retryable: bool) -> Outcome:
    """Details that cannot be kept are left out, and operators are told; its code and message are the author's all the same."""
    details = of_result(error.details, _any_class())
    if details.state is not State.SUCCEEDED:
        detail = f"{detail}\nIts details are left out: {details.error_message} {details.detail}"
    return failed(error.code, error.message, detail, details=details.result, retryable=retryable)


def _any_class() -> str:
    """Details are bounded like a result; every class has a bound, and one will do."""
    return next(iter(classes.declared()))


def failed(code: str, message: str, detail: str = "", details: Any = None, retryable: bool = False) -> Outcome:
    return Outcome(
        State.FAILED,
        error_code=code,
        error_message=plain_text(str(message)[:MESSAGE_LENGTH]),
        error_details=details,
        detail=plain_text(detail[-DETAIL_LENGTH:]),
        retryable=retryable,
    )


def after_a_signal(
    fired: type[Ended] | None,
    outcome: Outcome,
    error: BaseException | None,
    deadline_came_first: bool,
    retry: Retry,
) -> tuple[Outcome, BaseException | None]:
    """A handler that swallowed its JobTimeout has still timed out, whatever it returned or raised then. A cancel is
    decided by the settle (P20)."""
    if fired is JobTimeout and not isinstance(error, JobTimeout):
        return timed_out(deadline_came_first, outcome.detail, retry), JobTimeout()
    return outcome, error
