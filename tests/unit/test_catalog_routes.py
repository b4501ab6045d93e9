"""routes.optimize: a tour that visits every node once, of the length it says, found in the time it was given."""

import json
import math
import random
from pathlib import Path
from unittest.mock import Mock, create_autospec

import pytest
from pydantic import ValidationError

from jobs import registry
from jobs.classes import declared
from workers import JobContext
from workers.catalog.routes_optimize import (
    MAX_SEARCH_SECONDS,
    MAX_TEXT_CHARACTERS,
    RouteParams,
    optimize,
    search_seconds,
)

BERLIN52 = (Path(__file__).parents[2] / "stack/demo_data/berlin52.tsp").read_text()
BERLIN52_OPTIMUM = 7542


class Stopped(Exception):
    """Stands for whatever ctx.check() raises."""


def context(tsplib, seconds, remaining=120.0):
    ctx = create_autospec(JobContext, instance=True)
    ctx.params = RouteParams(tsplib=tsplib, seconds=seconds)
    ctx.remaining.return_value = remaining
    ctx.log = Mock()
    return ctx


def problem(points):
    rows = [f"{number} {x} {y}" for number, (x, y) in enumerate(points, start=1)]
    heading = f"TYPE: TSP\nDIMENSION: {len(points)}\nEDGE_WEIGHT_TYPE: EUC_2D\nNODE_COORD_SECTION\n"
    return heading + "\n".join(rows) + "\nEOF\n"


def length_of(tour, tsplib):
    """The closed tour's length, from the text alone: TSPLIB's nint distance is int(d + 0.5)."""
    rows = [line.split() for line in tsplib.splitlines() if line[:1].isdigit()]
    at = {int(node): (float(x), float(y)) for node, x, y in rows}
    steps = zip(tour, tour[1:] + tour[:1], strict=True)
    return sum(int(math.dist(at[here], at[there]) + 0.5) for here, there in steps)


def test_berlin52_is_within_one_per_cent_of_its_optimum():
    result = optimize(context(BERLIN52, seconds=2.0))

    assert sorted(result["tour"]) == list(range(1, 53))
    assert result["length"] == length_of(result["tour"], BERLIN52)
    assert BERLIN52_OPTIMUM <= result["length"] <= BERLIN52_OPTIMUM * 1.01


@pytest.mark.parametrize(
    "points",
    [
        [(0, 0), (3, 0), (0, 4)],
        [(7, 7)] * 5,
        [(x, 0) for x in range(30)],
        [(x * 0.001, 0) for x in range(30)],
        [(1e8, 1e8), (-1e8, 1e8), (-1e8, -1e8), (1e8, -1e8)],
    ],
    ids=["triangle", "one place", "a line", "all distances round to 0", "farthest apart"],
)
def test_every_shape_gives_a_permutation_and_its_length(points):
    tsplib = problem(points)
    result = optimize(context(tsplib, seconds=0.1))
    assert sorted(result["tour"]) == list(range(1, len(points) + 1))
    assert result["length"] == length_of(result["tour"], tsplib)


def test_the_largest_problem_gives_a_permutation_and_its_length():
    draw = random.Random(52)
    tsplib = problem([(draw.randint(0, 9999), draw.randint(0, 9999)) for _ in range(2000)])
    result = optimize(context(tsplib, seconds=0.1))
    assert sorted(result["tour"]) == list(range(1, 2001))
    assert result["length"] == length_of(result["tour"], tsplib)


def test_half_a_unit_rounds_up_as_tsplib_has_it():
    # 2.5 + 2.5 + 5: rounding halves to even would give 9.
    assert optimize(context(problem([(0, 0), (1.5, 2), (3, 4)]), seconds=0.1))["length"] == 11


def test_the_result_is_plain_json():
    result = optimize(context(BERLIN52, seconds=0.1))
    assert json.loads(json.dumps(result)) == result


def test_progress_follows_the_search_time_and_tells_the_best_length():
    ctx = context(BERLIN52, seconds=0.2)
    result = optimize(ctx)
    fractions = [call.args[0] for call in ctx.progress.call_args_list]
    assert fractions == sorted(fractions)
    assert 0.0 <= fractions[0] < 0.5
    assert fractions[-1] == 1.0
    assert ctx.progress.call_args.args[1] == f"best length so far {result['length']}"


def test_what_check_raises_ends_the_search():
    ctx = context(BERLIN52, seconds=100.0)
    ctx.check.side_effect = [None, None, Stopped]
    with pytest.raises(Stopped):
        optimize(ctx)


@pytest.mark.parametrize(
    ("asked", "remaining", "searched"),
    [
        (3.0, 120.0, 3.0),
        (100.0, 120.0, 100.0),
        (100.0, 102.0, 100.0),
        (100.0, 101.0, 99.0),
        (3.0, 2.0, 1.6),
        (3.0, 0.0, 0.001),
        (3.0, -1.0, 0.001),
    ],
)
def test_the_search_ends_before_the_jobs_limit_does(asked, remaining, searched):
    assert search_seconds(asked, remaining) == pytest.approx(searched)


def test_a_shortened_search_still_answers_and_is_logged():
    ctx = context(BERLIN52, seconds=100.0, remaining=0.5)
    assert sorted(optimize(ctx)["tour"]) == list(range(1, 53))
    ctx.log.info.assert_called_once_with("search_shortened", asked_seconds=100.0, search_seconds=0.4)


def test_the_longest_search_fits_the_timeout_of_its_class():
    """15 s of it are left for setting up, ten times what 2,000 nodes took."""
    job_type = registry.get("routes.optimize")
    assert job_type is not None
    assert job_type.timeout_seconds is None
    assert search_seconds(MAX_SEARCH_SECONDS, declared()["heavy"].timeout_seconds - 15) == MAX_SEARCH_SECONDS


def test_it_is_heavy():
    job_type = registry.get("routes.optimize")
    assert job_type is not None
    assert job_type.weigh(RouteParams(tsplib=BERLIN52)) == "heavy"


def test_the_search_takes_three_seconds_unless_told():
    assert RouteParams(tsplib=BERLIN52).seconds == 3.0


@pytest.mark.parametrize("seconds", [0.1, 1, 100])
def test_takes_search_times_in_range(seconds):
    assert RouteParams(tsplib=BERLIN52, seconds=seconds).seconds == seconds


@pytest.mark.parametrize("seconds", [0.099, 0, -1, 100.1, math.nan, math.inf, "3", True, None])
def test_refuses_other_search_times(seconds):
    with pytest.raises(ValidationError) as refused:
        RouteParams(tsplib=BERLIN52, seconds=seconds)
    assert [error["loc"] for error in refused.value.errors()] == [("seconds",)]


@pytest.mark.parametrize(
    ("tsplib", "sentence"),
    [
        (BERLIN52.replace("DIMENSION: 52", "DIMENSION: 53"), "DIMENSION is 53, but there are 52 nodes"),
        (BERLIN52.replace("EUC_2D", "GEO"), "EDGE_WEIGHT_TYPE is 'GEO', but only EUC_2D is solved."),
        (BERLIN52.replace("565.0", "nan"), "Line 7: coordinate 'nan' is not a finite number."),
        (None, "Input should be a valid string"),
    ],
)
def test_a_bad_text_is_refused_at_the_door_with_a_sentence(tsplib, sentence):
    with pytest.raises(ValidationError) as refused:
        RouteParams(tsplib=tsplib)
    (error,) = refused.value.errors()
    assert error["loc"] == ("tsplib",)
    assert sentence in error["msg"]


def test_a_text_may_be_as_long_as_the_bound_and_no_longer():
    comment = f"COMMENT: {'x' * (MAX_TEXT_CHARACTERS - len(BERLIN52) - 10)}\n"
    assert len(comment + BERLIN52) == MAX_TEXT_CHARACTERS
    RouteParams(tsplib=comment + BERLIN52)
    with pytest.raises(ValidationError, match="at most 200000 characters"):
        RouteParams(tsplib=comment + BERLIN52 + "\n")


def test_an_unknown_field_is_refused():
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        RouteParams.model_validate({"tsplib": BERLIN52, "vehicles": 2})
