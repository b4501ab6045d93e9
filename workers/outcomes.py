"""What an attempt's end means: a handler's result or exception, as an Outcome."""

import json
import traceback
from dataclasses import replace
from typing import Any

from jobs import classes
from jobs.lifecycle import Outcome
from jobs.states import State
from jobs.storable import holds_nul, plain_text
from workers.failures import Ended, Fail, JobCancelled, JobTimeout
from workers.retries import Retry, is_retryable


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
    limit = classes.get(cost_class).result_bytes
    if size > limit:
        return failed("result_too_large", f"The result is {size} bytes; at most {limit} are kept.")
    return Outcome(State.SUCCEEDED, result=value)


def of_exception(error: BaseException, retry: Retry, deadline_came_first: bool) -> Outcome:
    """Callers read a Fail as it is; of anything else its class name only."""
    detail = "".join(traceback.format_exception(error))
    retryable = is_retryable(error, retry)
    if isinstance(error, JobTimeout):
        return timed_out(deadline_came_first, detail, retryable)
    if isinstance(error, JobCancelled):
        return failed("cancelled", "It was cancelled while it ran.", detail)
    if isinstance(error, Fail):
        return _of_fail(error, detail, retryable)
    return failed("handler_error", type(error).__name__, detail, retryable=retryable)


def timed_out(deadline_came_first: bool, detail: str, retryable: bool = False) -> Outcome:
    if deadline_came_first:
        return failed("deadline", "Its deadline passed while it ran.", detail, retryable=retryable)
    return failed("timeout", "It ran longer than its limit and was ended.", detail, retryable=retryable)


def with_log(outcome: Outcome, text: str) -> Outcome:
    return replace(outcome, log=text)


def _of_fail(error: Fail, detail: str, retryable: bool) -> Outcome:
    details = of_result(error.details, _any_class())
    if details.state is not State.SUCCEEDED:
        return failed("bad_result", "The details of the handler's failure are not JSON-able data.", detail)
    return failed(error.code, error.message, detail, details=details.result, retryable=retryable)


def _any_class() -> str:
    """Details are bounded like a result; every class has a bound, and one will do."""
    return next(iter(classes.declared()))


def failed(code: str, message: str, detail: str = "", details: Any = None, retryable: bool = False) -> Outcome:
    return Outcome(
        State.FAILED,
        error_code=code,
        error_message=plain_text(message),
        error_details=details,
        detail=plain_text(detail),
        retryable=retryable,
    )


def after_a_signal(
    fired: type[Ended] | None, outcome: Outcome, error: BaseException | None, deadline_came_first: bool
) -> tuple[Outcome, BaseException | None]:
    """A handler that swallowed its JobTimeout has still timed out, whatever it returned or raised then. A cancel is
    decided by the settle (P20)."""
    if fired is JobTimeout and not isinstance(error, JobTimeout):
        return timed_out(deadline_came_first, outcome.detail), JobTimeout()
    return outcome, error
