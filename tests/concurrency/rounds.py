"""Two or three acts that meet on one job, in many rounds, each on a connection of its own; every order comes up."""

import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from threading import Barrier, BrokenBarrierError
from typing import Any

from django.db import connection

from jobs.lifecycle import Claim
from jobs.models import Job, WorkerNode
from tests import job_rows

ROUNDS = 150
HIT = 15  # each order of arrival at least this often
SPREAD_SECONDS = 0.002  # of the arrivals, about what a statement takes


def race(*acts: Callable[[int], Any], rounds: int = ROUNDS) -> list[tuple[Any, ...]]:
    """In every round all acts at once, each on its own connection; what they returned, by round.

    Each act in turn is held back a little more or less, to vary the order of arrival. In every sixth round they come one
    after another, first to last, and in the next one last to first: so both orders come up on any machine.
    """
    gate = Barrier(len(acts))

    def all_rounds(number: int, act: Callable[[int], Any]) -> list[Any]:
        try:
            return [_one_round(gate, number, round_, act) for round_ in range(rounds)]
        except BaseException:
            gate.abort()
            raise
        finally:
            connection.close()

    with ThreadPoolExecutor(len(acts)) as pool:
        racing = [pool.submit(all_rounds, number, act) for number, act in enumerate(acts)]
        wait(racing, 120, FIRST_EXCEPTION)
        for failed in [one for one in racing if one.done() and one.exception()]:
            if not isinstance(failed.exception(), BrokenBarrierError):  # those that only missed it
                failed.result()
        return list(zip(*[one.result(120) for one in racing], strict=True))


def _one_round(gate: Barrier, number: int, round_: int, act: Callable[[int], Any]) -> Any:
    gate.wait(30)
    if is_in_turn(round_):
        before = number if round_ % 6 == 0 else gate.parties - 1 - number
        return _in_turn(gate, before, lambda: act(round_))
    if round_ % (number + 2) == 0:
        time.sleep(SPREAD_SECONDS * (round_ % 7) / 6)  # to vary the order; no result depends on it
    return act(round_)


def is_in_turn(round_: int) -> bool:
    return round_ % 6 < 2


def _in_turn(gate: Barrier, before: int, act: Callable[[], Any]) -> Any:
    """Act after so many others have, and leave when all have."""
    for _ in range(before):
        gate.wait(30)
    done = act()
    for _ in range(gate.parties - before):
        gate.wait(30)
    return done


def jobs_for_rounds(**fields: Any) -> list[Job]:
    """One for each round, each in a class of its own, so that a claim can be told which one."""
    client = job_rows.a_client()
    given = {"client": client, "type": job_rows.TYPE, "admitted_bound": 1, "timeout_seconds": 10.0, **fields}
    Job.objects.bulk_create([Job(cost_class=class_of(round_), **given) for round_ in range(ROUNDS)])
    return rows()


def class_of(round_: int) -> str:
    return f"round_{round_}"


def rows() -> list[Job]:
    return sorted(Job.objects.all(), key=lambda job: int(job.cost_class.removeprefix("round_")))


def hit(outcomes: "Counter[str]", *expected: str, at_least: int = HIT) -> None:
    print(f"hit: {dict(outcomes)}")
    assert set(outcomes) == set(expected)
    assert min(outcomes.values()) >= at_least


def claims_for_rounds(node: WorkerNode) -> list[Claim]:
    """The job of every round, running."""
    return [there(job_rows.claim(node, class_of(round_))) for round_ in range(ROUNDS)]


def there(claimed: Claim | None) -> Claim:
    assert claimed is not None
    return claimed
