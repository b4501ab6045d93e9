"""Who ends a child that settles, and who does not (P30)."""

import signal
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest
from django.conf import settings

from workers.custody import Custody
from workers.keeper import SETTLING_SECONDS, Keeper
from workers.slots import Phase, Seen


class Child:
    def __init__(self) -> None:
        self.told: list[str] = []

    def stand_still(self) -> bool:
        return True

    def kill(self) -> None:
        self.told.append("killed")

    def await_end(self) -> None: ...

    def send(self, number: int) -> None:
        self.told.append(signal.Signals(number).name)


@pytest.mark.parametrize(("phase", "told"), [(Phase.RUNNING, ["killed"]), (Phase.SETTLING, ["SIGCONT"])])
def test_a_cancel_or_a_lost_lease_ends_a_body_but_no_settle(phase: Phase, told: list[str]) -> None:
    child = Child()
    slots = SimpleNamespace(of=lambda pid, token: Seen(0, pid, token, phase))
    custody = cast(Any, SimpleNamespace(_children={7: child}, _slots=slots, _end_orphans=lambda: None))
    Custody._end_if_at_work(custody, 7, 1, "lease_lost")
    assert child.told == told


def test_at_its_hard_deadline_a_child_that_has_gone_on_to_another_job_is_spared() -> None:
    """The database was away since the keeper looked; the slot is read again while the child stands still (P19)."""
    child = Child()
    slots = SimpleNamespace(of=lambda pid, token: None)
    custody = cast(Any, SimpleNamespace(_children={7: child}, _slots=slots))
    Custody._end_at_hard_deadline(custody, cast(Any, SimpleNamespace(pid=7, token=1)))
    assert child.told == ["SIGCONT"]


@pytest.mark.parametrize(
    ("phase", "after_grace", "over"),
    [
        (Phase.RUNNING, -1.0, False),
        (Phase.RUNNING, 0.1, True),
        (Phase.SETTLING, SETTLING_SECONDS - 1, False),
        (Phase.SETTLING, SETTLING_SECONDS + 0.1, True),
    ],
)
def test_a_keeper_that_stops_gives_a_settle_three_seconds_more(phase: Phase, after_grace: float, over: bool) -> None:
    slots = SimpleNamespace(all=lambda: [Seen(0, 7, 1, phase)])
    keeper = cast(Any, SimpleNamespace(stop_by=time.monotonic() - after_grace, slots=slots))
    assert Keeper._patience_is_over(keeper) is over


def test_celerys_own_limit_stands_behind_every_other() -> None:
    last = Keeper._last_fence_seconds(cast(Any, SimpleNamespace(ceiling_seconds=900.0)))
    assert last == 900 + settings.WEIGHBRIDGE_LIMIT_GRACE_SECONDS + 5 + settings.WEIGHBRIDGE_LEASE_SECONDS + 1
