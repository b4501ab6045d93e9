"""numbers.sum_squares: the right sum, in the class that its size asks for."""

from unittest.mock import create_autospec

import pytest
from pydantic import ValidationError

from jobs import registry
from workers import JobContext
from workers.catalog.numbers_sum_squares import (
    EXACT_AS_DOUBLE_MAX_N,
    LIGHT_MAX_N,
    MAX_N,
    SumSquaresParams,
    sum_squares,
)


class Stopped(Exception):
    """Stands for whatever ctx.check() raises."""


def context(n):
    ctx = create_autospec(JobContext, instance=True)
    ctx.params = SumSquaresParams(n=n)
    return ctx


def pyramid(n):
    """The closed formula, for comparison."""
    return n * (n + 1) * (2 * n + 1) // 6


@pytest.mark.parametrize(("n", "total"), [(0, 0), (1, 1), (2, 5), (3, 14), (10, 385), (100, 338_350)])
def test_known_sums(n, total):
    assert sum_squares(context(n)) == {"n": n, "sum": total}


@pytest.mark.parametrize("n", [99_999, 100_000, 100_001, 250_000])
def test_no_number_is_lost_or_added_twice_where_chunks_meet(n):
    assert sum_squares(context(n))["sum"] == pyramid(n)


def test_a_sum_above_two_to_the_sixty_four_is_exact():
    n = 4_000_000
    result = sum_squares(context(n))
    assert result["sum"] == pyramid(n) > 2**64


def test_the_bound_said_for_doubles_is_the_last_one_below_two_to_the_fifty_three():
    assert pyramid(EXACT_AS_DOUBLE_MAX_N) < 2**53 < pyramid(EXACT_AS_DOUBLE_MAX_N + 1)


def test_progress_rises_to_one():
    ctx = context(250_000)
    sum_squares(ctx)
    assert [call.args[0] for call in ctx.progress.call_args_list] == [0.4, 0.8, 1.0]


def test_what_check_raises_ends_the_sum():
    ctx = context(MAX_N)
    ctx.check.side_effect = [None, Stopped]
    with pytest.raises(Stopped):
        sum_squares(ctx)
    assert ctx.progress.call_count == 1


@pytest.mark.parametrize(
    ("n", "cost_class"), [(0, "light"), (LIGHT_MAX_N, "light"), (LIGHT_MAX_N + 1, "heavy"), (MAX_N, "heavy")]
)
def test_the_class_follows_the_size(n, cost_class):
    job_type = registry.get("numbers.sum_squares")
    assert job_type is not None
    assert job_type.weigh(SumSquaresParams(n=n)) == cost_class


@pytest.mark.parametrize("n", [-1, MAX_N + 1, 2**70, 1.0, 1.5, "10", True, None])
def test_refuses_other_numbers(n):
    with pytest.raises(ValidationError) as refused:
        SumSquaresParams(n=n)
    assert [error["loc"] for error in refused.value.errors()] == [("n",)]


@pytest.mark.parametrize("given", [{}, {"n": 1, "m": 1}])
def test_refuses_a_missing_and_an_unknown_field(given):
    with pytest.raises(ValidationError):
        SumSquaresParams(**given)
