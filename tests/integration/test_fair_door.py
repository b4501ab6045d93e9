"""The fair door: in a class that is more than half full nobody holds more than a share while others want some of it (P10a)."""

from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now

from jobs import admission, batches, refused_lately
from jobs.admission import Admitted, Rejected
from jobs.models import ApiClient, FairShare, Job, LimitKey, TypeControl, WorkerNode
from tests import job_rows
from tests.job_rows import a_client
from tests.second_connections import Elsewhere, class_locked, elsewhere, waits_for_a_lock
from tests.submissions import a_batch, a_class, a_submission, batch_verdict, verdict
from tests.waiting import eventually

pytestmark = pytest.mark.django_db


def submit(client: str, max_waiting: int = 8, **fields: Any) -> Admitted | Rejected:
    """Two slots are live, so the room is for 10."""
    answer = admission.submit(a_submission(max_waiting, client=a_client(client), **fields))
    assert isinstance(answer, Admitted | Rejected)
    return answer


def taken(client: str, **fields: Any) -> int:
    """How many jobs it gets in until it is refused for its share."""
    count = 0
    while isinstance(answer := submit(client, **fields), Admitted):
        count += 1
    assert answer.reason == "share_full"
    return count


def a_refused(*clients: str) -> None:
    """Each wanted some room of the class a moment ago, as far as this process knows."""
    for name in clients:
        refused_lately.HERE.note("light", a_client(name).pk)


def test_a_client_alone_has_all_of_the_room(node: WorkerNode) -> None:
    assert [verdict(submit("a")) for _ in range(11)] == ["admitted"] * 10 + ["queue_full"]


def test_beside_another_one_each_holds_half_and_the_rest_stays_free_for_the_other(node: WorkerNode) -> None:
    assert verdict(submit("b")) == "admitted"
    assert taken("a") == 5
    assert [verdict(submit("b")) for _ in range(5)] == ["admitted"] * 4 + ["queue_full"]


def test_while_no_more_than_half_is_taken_nobody_is_held_to_a_share(node: WorkerNode) -> None:
    """Of three clients each may hold three of ten; up to the sixth job nobody asks."""
    a_refused("b", "c")
    assert [verdict(submit("a")) for _ in range(7)] == ["admitted"] * 6 + ["share_full"]


def test_shares_are_weighted(node: WorkerNode) -> None:
    a_client("b")
    ApiClient.objects.filter(name="b").update(weight=4)
    assert verdict(submit("b")) == "admitted"
    assert taken("a") == 5  # up to the half; its share would be 2
    assert verdict(submit("b")) == "admitted"


def test_a_share_is_never_less_than_one_job(node: WorkerNode) -> None:
    a_refused(*"bcdefghijklmno")
    assert taken("a") == 6
    assert verdict(submit("b")) == "admitted"
    assert verdict(submit("b")) == "share_full"


@pytest.mark.parametrize(("seconds_ago", "most"), [(55, 5), (65, 10)])
def test_one_that_was_let_in_within_a_minute_counts_and_no_longer(
    node: WorkerNode, seconds_ago: float, most: int
) -> None:
    assert verdict(submit("b")) == "admitted"
    Job.objects.all().delete()
    FairShare.objects.update(used_at=job_rows.later(-seconds_ago))
    answers = [verdict(submit("a")) for _ in range(11)]
    assert answers.count("admitted") == max(most, 6)
    assert set(answers) == {"admitted", "share_full" if most == 5 else "queue_full"}


def test_one_that_was_refused_lately_counts_too_though_nothing_of_it_is_stored(node: WorkerNode) -> None:
    for _ in range(10):
        submit("a")
    assert verdict(submit("b")) == "queue_full"
    assert not FairShare.objects.filter(client=a_client("b")).exists()
    Job.objects.filter(pk__in=Job.objects.values("pk")[:4]).delete()
    assert [verdict(submit(name)) for name in "aba"] == ["share_full", "admitted", "share_full"]


def test_who_wants_another_class_is_no_other(node: WorkerNode) -> None:
    refused_lately.HERE.note("heavy", a_client("b").pk)
    admission.submit(a_submission(8, "heavy", client=a_client("c")))
    assert [verdict(submit("a")) for _ in range(10)] == ["admitted"] * 10


def test_what_is_past_its_start_by_holds_no_share(node: WorkerNode) -> None:
    submit("b")
    assert taken("a") == 5
    Job.objects.filter(client=a_client("a")).update(start_by=job_rows.later(-1))
    assert verdict(submit("a")) == "admitted"


def test_a_class_without_live_workers_shares_the_room_of_those_that_it_is_configured_with() -> None:
    """Eight may wait, and with the two processes that are to come the room is for ten."""
    assert verdict(submit("b")) == "admitted"
    assert taken("a") == 5


def test_where_all_places_are_taken_the_class_is_full_whoever_asks(node: WorkerNode) -> None:
    submit("b")
    Job.objects.bulk_create(
        Job(client=a_client("a"), cost_class="light", type=job_rows.TYPE, admitted_bound=10, timeout_seconds=10)
        for _ in range(9)
    )
    assert (verdict(submit("a")), verdict(submit("b"))) == ("queue_full", "queue_full")


def test_no_process_is_kept_free_for_others(node: WorkerNode) -> None:
    """Eight slots and two that may wait: half of ten are five, and yet all eight are given to who has work for them."""
    WorkerNode.objects.filter(pk=node.pk).update(processes=8)
    a_refused("b")
    assert [verdict(submit("a", max_waiting=2)) for _ in range(9)] == ["admitted"] * 8 + ["share_full"]
    assert [verdict(submit("b", max_waiting=2)) for _ in range(3)] == ["admitted", "admitted", "queue_full"]


def test_a_class_in_which_none_may_wait_accepts_exactly_while_a_process_is_free(node: WorkerNode) -> None:
    a_refused("b")
    WorkerNode.objects.filter(pk=node.pk).update(processes=4)
    assert [verdict(submit("a", max_waiting=0)) for _ in range(5)] == ["admitted"] * 4 + ["queue_full"]


# ── Work ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def work(client: str, seconds: float) -> Admitted | Rejected:
    """Two slots take 10 s of work each."""
    cost_class = a_class(max_waiting=1000, max_backlog_seconds=10.0)
    asked = replace(a_submission(client=a_client(client), declared_cost_seconds=seconds), cost_class=cost_class)
    answer = admission.submit(asked)
    assert isinstance(answer, Admitted | Rejected)
    return answer


def test_of_the_work_that_a_class_takes_each_has_its_share_too(node: WorkerNode) -> None:
    """Twenty seconds in all: ten for each of two."""
    assert verdict(work("b", 1)) == "admitted"
    answers = [work("a", 2) for _ in range(7)]
    assert [verdict(answer) for answer in answers] == ["admitted"] * 6 + ["share_full"]  # the sixth came upon ten
    share = answers[-1].share if isinstance(answers[-1], Rejected) else None
    assert share is not None
    assert (share.by, share.part) == ("work", 0.5)
    assert share.held_seconds == pytest.approx(12, abs=0.1)
    assert verdict(work("b", 2)) == "admitted"


def test_from_a_quarter_of_the_work_on_who_holds_some_has_its_part_of_it_among_those_who_do(node: WorkerNode) -> None:
    """Of four that hold some each has five seconds of twenty. As many that want some and hold none make no difference below the half."""
    for name in "bcd":
        work(name, 1)
    a_refused(*"efghij")
    assert [verdict(work("a", 2)) for _ in range(4)] == ["admitted"] * 3 + ["share_full"]
    assert verdict(work("e", 0.5)) == "admitted"


def test_below_a_quarter_of_the_work_it_is_nobody_s_part(node: WorkerNode) -> None:
    for name in "bcdefghij":
        work(name, 0.2)
    assert [verdict(work("a", 1.5)) for _ in range(4)] == ["admitted"] * 3 + ["share_full"]


def test_alone_a_client_may_bring_all_of_the_work(node: WorkerNode) -> None:
    assert [verdict(work("a", 5)) for _ in range(6)] == ["admitted"] * 5 + ["queue_full"]


# ── Limit keys ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_limit_key_holds_no_more_than_its_equal_part(node: WorkerNode) -> None:
    """Two keys have a maximum and are held: with the jobs that name none these are three parties, of three places each."""
    LimitKey.objects.create(pattern="x", maximum=1)
    LimitKey.objects.create(pattern="y:*", maximum=1)
    for client, key in (("a", "x"), ("b", "y:1"), ("c", "x"), ("d", "free"), ("e", "x"), ("f", "free")):
        assert verdict(submit(client, limit_keys=(key,))) == "admitted"
    answer = submit("g", limit_keys=("free", "x"))
    assert isinstance(answer, Rejected) and answer.share is not None
    assert (answer.share.by, answer.share.key, answer.share.held, answer.share.most) == ("key", "x", 3, 3)
    assert verdict(submit("g", limit_keys=("y:1",))) == "admitted"
    assert verdict(submit("h", limit_keys=("free",))) == "admitted"


def test_keys_without_a_maximum_share_nothing(node: WorkerNode) -> None:
    submit("b")
    assert [verdict(submit(f"c{number}", limit_keys=("x",))) for number in range(9)] == ["admitted"] * 9


def test_a_paused_type_holds_no_more_than_its_equal_part(node: WorkerNode) -> None:
    """Its jobs keep their places (P2), and stay while all others come and go: with these it shares by halves."""
    TypeControl.objects.create(type=job_rows.TYPE, paused_at=Now())
    answers = [submit(f"c{number}") for number in range(6)]
    assert [verdict(answer) for answer in answers] == ["admitted"] * 6, "up to the half nobody asks"
    over = submit("c6")
    assert isinstance(over, Rejected) and over.share is not None
    assert (over.share.by, over.share.key, over.share.held, over.share.most) == ("paused", job_rows.TYPE, 6, 5)
    batch = batches.submit(a_batch({"a": a_submission(8, client=a_client("d"))}, client=a_client("d")))
    assert batch_verdict(batch) == "share_full"
    node.types.append("tests.other")
    node.save()
    assert verdict(submit("c6", type="tests.other")) == "admitted"
    TypeControl.objects.update(paused_at=None)
    assert verdict(submit("e")) == "admitted"


def test_a_paused_type_of_a_client_alone_may_fill_the_room(node: WorkerNode) -> None:
    TypeControl.objects.create(type=job_rows.TYPE, paused_at=Now())
    assert [verdict(submit("a")) for _ in range(10)] == ["admitted"] * 10


def test_a_client_alone_may_fill_the_room_with_one_key(node: WorkerNode) -> None:
    LimitKey.objects.create(pattern="x", maximum=1)
    assert [verdict(submit("a", limit_keys=("x",))) for _ in range(10)] == ["admitted"] * 10


# ── When to come back ────────────────────────────────────────────────────────────────────────────────────────────────


def test_who_has_its_share_comes_back_when_a_fifth_of_it_has_gone_at_its_part_of_the_drain(node: WorkerNode) -> None:
    """Two leave in a second, and half of them are its own. Its share are 51 places, of which 11 must be free again."""
    for _ in range(60):
        job_rows.a_finished_job(accepted_at=job_rows.later(-30))
    submit("b", max_waiting=100)
    assert taken("a", max_waiting=100) == 51
    answer = submit("a", max_waiting=100)
    assert isinstance(answer, Rejected)
    assert (answer.reason, answer.share and answer.share.most) == ("share_full", 51)
    assert (
        16 <= answer.retry_after_seconds <= 21
    )  # nine times of ten they have gone by then; the older the ends, the slower it was


# ── Under the lock, and without it ───────────────────────────────────────────────────────────────────────────────────


def five_of_ten(less: int = 0) -> None:
    """One waits of b, and five of a's jobs, or fewer: as many as it may have."""
    job_rows.a_node()
    submit("b")
    for _ in range(5 - less):
        submit("a")


@pytest.mark.django_db(transaction=True)
def test_a_refusal_for_a_share_takes_no_lock_and_writes_nothing(other: Elsewhere) -> None:
    five_of_ten()
    asked = a_submission(8, client=a_client("a"))
    with class_locked("light", by=other), transaction.atomic(), connection.cursor() as cursor:
        assert verdict(admission.submit(asked)) == "share_full"
        cursor.execute("SELECT pg_current_xact_id_if_assigned()::text")
        assert cursor.fetchone()[0] is None


@pytest.mark.django_db(transaction=True)
def test_of_several_that_saw_the_last_place_of_a_share_one_is_given_it(other: Elsewhere) -> None:
    """All have passed the look without the lock, and wait for it."""
    five_of_ten(less=1)
    submit("b")  # so that the class is more than half full when the lock is had
    asked = a_submission(8, client=a_client("a"))
    with ExitStack() as stack:
        several = [stack.enter_context(elsewhere()) for _ in range(3)]
        pids = [one.backend_pid() for one in several]
        with class_locked("light", by=other):
            answers = [one.start(lambda: admission.submit(asked)) for one in several]
            eventually(lambda: all(waits_for_a_lock(pid) for pid in pids), 0.9)
        verdicts = sorted(verdict(answer.result(10)) for answer in answers)
    assert verdicts == ["admitted", "share_full", "share_full"]
    assert Job.objects.filter(client=a_client("a")).count() == 5
