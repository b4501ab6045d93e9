"""The door's decision by itself: the order of its checks, and when somebody with a share should come back (P7, P10a). tests/integration/test_decision_model.py holds the database to it."""

from dataclasses import replace

import pytest

from jobs.capacity import Room
from jobs.decision import (
    Ahead,
    Asked,
    Bounds,
    Share,
    Standing,
    decide,
    share_over,
    share_retry_after_seconds,
    share_spacing_seconds,
)

BOUNDS = Bounds(max_waiting=8, max_backlog_seconds=48, processes=2)
ROOM = Room(waiting=4, running=2, slots=2)
HAS_ITS_SHARE = Standing(part=0.5, part_of_holders=0.5, jobs=5)
LATE = Asked(deadline_in_seconds=0.0)
UNKNOWN = Asked(type_known=False)
FULL = replace(ROOM, waiting=8)


@pytest.mark.parametrize(
    ("asked", "room", "standing", "verdict"),
    [
        (LATE, FULL, HAS_ITS_SHARE, "deadline_infeasible"),
        (UNKNOWN, FULL, HAS_ITS_SHARE, "queue_full"),
        (UNKNOWN, ROOM, HAS_ITS_SHARE, "share_full"),
        (UNKNOWN, ROOM, Standing(), "type_unavailable"),
        (Asked(), ROOM, Standing(), "admitted"),
        (Asked(), ROOM, replace(HAS_ITS_SHARE, jobs=4), "admitted"),
        (Asked(), replace(ROOM, waiting=3), HAS_ITS_SHARE, "admitted"),  # five of ten are no more than half
        (Asked(), replace(ROOM, work_seconds=96.1), Standing(), "queue_full"),
        (Asked(), replace(ROOM, work_seconds=96.0), Standing(), "admitted"),
    ],
)
def test_what_is_looked_at_first_decides(asked: Asked, room: Room, standing: Standing, verdict: str) -> None:
    assert decide(asked, room, BOUNDS, standing).verdict == verdict


def test_a_deadline_that_would_probably_be_missed_is_told_with_when_it_would_start() -> None:
    asked = Asked(deadline_in_seconds=3, expected_seconds=1)
    decision = decide(asked, ROOM, BOUNDS, Standing(), Ahead(6, 1.0))
    assert (decision.verdict, decision.starts_in_seconds) == ("deadline_unreachable", 2.5)
    assert decide(asked, ROOM, BOUNDS, Standing(), Ahead(1, 1.0)).verdict == "admitted"
    assert decide(asked, ROOM, BOUNDS, Standing(), Ahead(6, None)).verdict == "admitted"


@pytest.mark.parametrize(
    ("weights", "places", "most"), [([1, 1], 10, 5), ([1, 2], 10, 3), ([0.1] * 3, 9, 3), ([1, 99], 10, 1)]
)
def test_a_share_is_the_whole_part_of_the_places_by_weight_and_at_least_one(
    weights: list[float], places: int, most: int
) -> None:
    bounds, room = replace(BOUNDS, max_waiting=places - 2), Room(places - 3, 2, 2)
    part = weights[0] / sum(weights)
    share = share_over((), room, bounds, Standing(part, part, jobs=most))
    assert share is not None and share.most == most
    assert share_over((), room, bounds, Standing(part, part, jobs=most - 1)) is None


def a_share(**fields: object) -> Share:
    return replace(Share("jobs", 0.5, 50, 50), **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("share", "drain", "places", "seconds"),
    [
        (
            a_share(),
            2.0,
            1,
            15,
        ),  # ten of fifty must go, one a second in the mean, and nine times of ten they have by then
        (a_share(part=0.1), 2.0, 1, 72),
        (a_share(held=60), 2.0, 1, 26),
        (a_share(held=41, most=50), 2.0, 1, 3),
        (a_share(), 2.0, 15, 21),
        (a_share(most=5, held=5), 2.0, 6, 60),  # more than it may ever have beside others
        (a_share(), None, 1, 7),
        (a_share(part=0.01), 0.1, 1, 300),
        (a_share(by="key", key="x", part=1 / 3), 3.0, 1, 15),
        (a_share(by="work", held_seconds=60), 2.0, 1, 22),  # 60 s for one of two slots, down to 38.4 s
    ],
)
def test_a_share_is_drained_by_its_own_part(share: Share, drain: float | None, places: int, seconds: int) -> None:
    assert share_retry_after_seconds(share, ROOM, BOUNDS, drain, 7, places) == seconds


@pytest.mark.parametrize(("most", "part", "seconds"), [(1, 0.5, 4.0), (2, 0.25, 6.0), (50, 0.5, 2.04)])
def test_turns_behind_a_share_are_as_far_apart_as_departures_of_it_and_the_further_the_smaller_it_is(
    most: int, part: float, seconds: float
) -> None:
    assert share_spacing_seconds(a_share(most=most, part=part), 1.0) == pytest.approx(seconds)


@pytest.mark.parametrize(("jobs", "own_turns", "kept"), [(5, 0, 0), (4, 1, 1), (3, 2, 2), (3, 9, 2)])
def test_of_a_share_up_to_half_is_kept_for_the_client_s_own_turns(jobs: int, own_turns: int, kept: int) -> None:
    """Of ten places five are its share."""
    bounds, room = replace(BOUNDS, max_waiting=8), Room(5, 2, 2)
    share = share_over((), room, bounds, Standing(0.5, 0.5, jobs, own_turns=own_turns))
    assert share is not None and (share.most, share.held, share.kept) == (5, jobs, kept)
    assert share_over((), room, bounds, Standing(0.5, 0.5, jobs - 1, own_turns=own_turns)) is None


def test_of_a_share_of_the_work_up_to_half_is_kept_too() -> None:
    """48 s of work on two slots, of which half is the client's: 48 s, and each of its jobs is 4 s."""
    bounds, room = Bounds(1_000, 48.0, 2), Room(20, 2, 2, 60.0)
    for jobs, own_turns, over in ((12, 0, False), (12, 1, True), (6, 9, False), (7, 9, True), (13, 0, True)):
        share = share_over((), room, bounds, Standing(0.5, 0.5, jobs, 4.0 * jobs, own_turns))
        assert (share is not None) is over, (jobs, own_turns)
        assert share is None or share.by == "work"


def test_with_no_worker_alive_nobody_can_say_when_and_the_cap_is_told() -> None:
    assert share_retry_after_seconds(a_share(), replace(ROOM, slots=0), BOUNDS, 2.0, 7) == 300
