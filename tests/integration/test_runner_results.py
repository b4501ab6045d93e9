"""A result is stored as JSON writes it, or the job fails in words; whatever the handler returned (P36)."""

from collections.abc import Callable
from typing import Any

import pytest

from jobs import classes
from jobs.models import Job
from tests.integration.attempts import detail

# The limits of an attempt use the alarm signal that pytest-timeout would use.
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(method="thread")]


def _nested(depth: int, innermost: object = None) -> object:
    value = innermost
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    "result",
    [
        object(),
        {1, 2},
        b"bytes",
        float("nan"),
        float("inf"),
        {"deep": [float("-inf")]},
        "\ud800",
        {"\udfff": 1},
        10**5000,
        _nested(100_000),
        "a\0b",
        {"\0": 1},
        {"deep": [{"x": "\0"}]},
        {(1, 2): 3},
    ],
    ids=[
        *("object", "set", "bytes", "nan", "inf", "inner inf", "surrogate", "surrogate key", "5001 digits"),
        *("100000 deep", "nul", "nul key", "inner nul", "tuple key"),
    ],
)
def test_a_result_that_cannot_be_stored_is_the_jobs_failure(run: Callable[..., Job], result: object) -> None:
    job = run(lambda ctx: result)
    assert (job.state, job.error_code, job.result) == ("failed", "bad_result", None)


@pytest.mark.parametrize(
    ("result", "stored"),
    [
        (10**4000, 10**4000),
        (-(2**70), -(2**70)),
        (1.5e300, 15 * 10**299),  # jsonb keeps the number, not the way it was written
        ("\\u0000", "\\u0000"),
        ("\U0001f600 é", "\U0001f600 é"),
        ((1, 2), [1, 2]),
        ({1: "a", None: "b"}, {"1": "a", "null": "b"}),
        (_nested(50), _nested(50)),
        (None, None),
    ],
    ids=["4001 digits", "beyond int64", "large float", "escaped nul", "emoji", "tuple", "odd keys", "50 deep", "none"],
)
def test_a_result_that_json_knows_is_stored_as_json_writes_it(
    run: Callable[..., Job], result: object, stored: object
) -> None:
    job = run(lambda ctx: result)
    assert job.state == "succeeded", (job.error_code, detail(job))
    assert job.result == stored


@pytest.mark.parametrize(("over", "state", "code"), [(0, "succeeded", ""), (1, "failed", "result_too_large")])
def test_a_result_may_be_as_large_as_its_class_allows_in_bytes(
    run: Callable[..., Job], over: int, state: str, code: str
) -> None:
    allowed = classes.get("light").result_bytes
    text = "é" * ((allowed - 2) // 2) + "x" * over  # two quotes, two bytes a letter
    job = run(lambda ctx: text)
    assert (job.state, job.error_code) == (state, code)


class Moving(dict[str, int]):
    """A dict that a forgotten thread changes while it is written."""

    def items(self) -> Any:
        raise RuntimeError("dictionary changed size during iteration")


def test_a_result_that_breaks_while_it_is_written_is_the_jobs_failure(run: Callable[..., Job]) -> None:
    assert run(lambda ctx: Moving(a=1)).error_code == "bad_result"


def test_a_nul_far_down_is_the_jobs_failure(run: Callable[..., Job]) -> None:
    assert run(lambda ctx: _nested(480, "\0")).error_code == "bad_result"


@pytest.mark.parametrize("depth", [201, 500, 900, 935, 940, 990])
def test_a_result_nested_too_deeply_is_a_bad_result_at_any_depth(run: Callable[..., Job], depth: int) -> None:
    assert run(lambda ctx: _nested(depth)).error_code == "bad_result"
