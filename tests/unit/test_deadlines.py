"""A deadline is an instant, and what remains until then."""

import math

import pytest

from workers.deadlines import Deadline


@pytest.mark.parametrize(
    ("now", "remaining", "expired"), [(0, 5, False), (4.75, 0.25, False), (5, 0, True), (9, 0, True)]
)
def test_what_remains_is_never_negative(now, remaining, expired):
    deadline = Deadline(5, clock=lambda: now)
    assert (deadline.remaining(), deadline.expired) == (remaining, expired)


def test_after_counts_from_now_on_the_clock_given():
    assert Deadline.after(2, clock=lambda: 40).at == 42


@pytest.mark.parametrize(("one", "other", "sooner"), [(1, 2, 1), (2, 1, 1), (3, 3, 3), (math.inf, 7, 7)])
def test_the_sooner_of_two(one, other, sooner):
    assert Deadline(one).sooner(Deadline(other)) == Deadline(sooner)


def test_no_deadline_never_expires():
    assert Deadline(math.inf).remaining() == math.inf


def test_a_deadline_at_nan_is_refused():
    with pytest.raises(ValueError, match="nan"):
        Deadline.after(math.nan)
