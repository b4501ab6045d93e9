"""Retry-After on the real Redis: whose turn is when, and who came at it (P10, P32)."""

import socket
import time
import uuid
from typing import Any

import pytest
import redis
from django.conf import settings

from jobs import admission, batches, broker, costs, refused_lately, telemetry
from jobs.admission import Admitted
from jobs.door.idempotency import Idempotency
from jobs.turns import in_redis, pacing
from jobs.turns.pacing import Arrival, whose
from tests import job_rows
from tests.in_process_api import InProcessApi, a_probe_node, problem
from tests.job_rows import a_client
from tests.submissions import a_batch, a_class, a_submission, batch_verdict, submit, verdict

HEAVY = a_class("heavy", max_waiting=8, max_backlog_seconds=1_000.0)
WAYS = pytest.mark.parametrize("away", [False, True], ids=["in Redis", "in this process"])


def _told(client: int, key: str | None, base: float = 15, spacing: float = 15, cost_class: Any = HEAVY) -> int:
    return pacing._taken(whose(client, key), cost_class, base, spacing, spacing)


def _near(told: list[int], expected: list[int]) -> bool:
    """A second may begin between two calls."""
    return all(one in (after, after - 1) for one, after in zip(told, expected, strict=True))


def _returned(admitted: str) -> float:
    return float(telemetry.RETURNED.labels("light", admitted)._value.get())


@WAYS
def test_callers_in_a_row_are_a_departure_apart(away: bool) -> None:
    if away:
        broker.breaker.open()
    told = [_told(1, f"k{n}") for n in range(6)]
    assert _near(told, [15, 30, 45, 60, 75, 90]), told


@WAYS
def test_the_same_key_is_told_the_same_turn(away: bool) -> None:
    if away:
        broker.breaker.open()
    first = [_told(1, "a"), _told(1, "b"), _told(2, "a")]
    assert _near([_told(1, "a"), _told(1, "b"), _told(2, "a")], first)
    assert _near(first, [15, 30, 45])


@WAYS
def test_a_flood_moves_another_client_by_the_turns_it_may_hold_only(away: bool) -> None:
    if away:
        broker.breaker.open()
    told = [_told(1, None) for _ in range(40)]
    assert _near(told[8:], [120] * 32), told
    assert _near([_told(2, None)], [135])


def test_no_key_lies_in_redis_in_the_clear_and_everything_there_expires() -> None:
    _told(1, "a-secret-key")
    with redis.Redis.from_url(settings.WEIGHBRIDGE_REDIS_URL, decode_responses=True) as server:
        names = sorted(server.scan_iter("weighbridge:turns*"))
        assert len(names) == 6
        assert all(0 < server.ttl(name) <= 600 for name in names)
        assert "secret" not in str(
            [names, *(server.zrange(name, 0, -1) for name in names if name.endswith(("at", "until", "all")))]
        )


def test_what_a_client_leaves_in_redis_is_bounded() -> None:
    narrow = a_class("heavy", max_waiting=2)
    with redis.Redis.from_url(settings.WEIGHBRIDGE_REDIS_URL) as server:
        for n in range(50):
            _told(1, f"k{n}", base=0, spacing=0, cost_class=narrow)  # each turn has come at once
        assert 0 < server.zcard("weighbridge:turns:heavy:1:at") <= 4
        assert server.zcard("weighbridge:turns:heavy:1:until") == server.zcard("weighbridge:turns:heavy:1:at")


@pytest.mark.django_db
def test_for_as_many_turns_of_a_client_a_place_is_kept_as_it_lately_came_at() -> None:
    """None of ten in a row came, so of the next ten a few are expected; the client comes at these, and more are."""
    room = a_class("heavy", max_waiting=100)

    def kept_of_ten(name: str) -> int:
        for n in range(10):
            _told(1, f"{name}{n}", base=0, spacing=0, cost_class=room)
        return _arrive(2, "new", room).kept

    assert kept_of_ten("a") == 10
    with redis.Redis.from_url(settings.WEIGHBRIDGE_REDIS_URL) as server:
        until = "weighbridge:turns:heavy:1:until"
        server.zadd(until, dict.fromkeys(server.zrange(until, 0, -1), time.time() - 1))
    kept = kept_of_ten("b")
    assert 0 < kept < 5
    for n in range(10):
        assert _arrive(1, f"b{n}", room).returned
    assert kept_of_ten("c") > 5


def test_while_redis_hangs_a_refusal_pays_for_it_once(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    """P32: half a second to the first caller, nothing to the next."""
    with socket.create_server(("127.0.0.1", 0)) as mute:  # takes connections and never answers
        settings.WEIGHBRIDGE_REDIS_URL = f"redis://127.0.0.1:{mute.getsockname()[1]}/0"
        in_redis._script.cache_clear()
        began = time.monotonic()
        told = [_told(1, f"k{n}") for n in range(3)]
        assert time.monotonic() - began < 1.5
    in_redis._script.cache_clear()
    assert _near(told, [15, 30, 45])


def _arrive(client: int, key: str | None, cost_class: Any = HEAVY) -> Arrival:
    """As it is now, and not as it was known a second ago."""
    pacing._anyone_expected.forget()
    return pacing.arrive(whose(client, key), cost_class)


@pytest.mark.django_db
@WAYS
@pytest.mark.parametrize("key", ["a", None])
def test_who_comes_at_its_turn_is_known_once(away: bool, key: str | None) -> None:
    if away:
        broker.breaker.open()
    _told(1, key, base=0, spacing=0)
    strangers = [_arrive(1, "b"), _arrive(2, key), _arrive(1, key, a_class("light"))]
    assert [arrival.returned for arrival in [*strangers, _arrive(1, key), _arrive(1, key)]] == [
        *[False] * 3,
        True,
        False,
    ]


@WAYS
def test_a_place_is_kept_for_each_turn_that_is_near(away: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """HEAVY keeps up to four of its eight, for those that come within four departures."""
    if away:
        broker.breaker.open()
    monkeypatch.setattr(costs, "mean_seconds", lambda cost_class: 15.0)
    assert _arrive(9, "new") == Arrival()
    for n in range(6):
        _told(1, f"k{n}", base=30, spacing=15)  # at 30, 45, 60 | 75, …
    assert _arrive(9, "new") == Arrival(kept=3, kept_seconds=45.0)
    assert _arrive(1, "k0") == Arrival(kept=3, kept_seconds=45.0), "it is early"
    for n in range(3):
        _told(2, f"k{n}", base=0, spacing=0, cost_class=HEAVY)  # behind all others
    assert _arrive(9, "new", a_class("heavy", max_waiting=0)) == Arrival()


@WAYS
def test_where_work_fills_a_class_before_jobs_do_as_much_of_it_is_kept(
    away: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 40 places; but the work that may wait is that of ten jobs, so five of them are kept."""
    monkeypatch.setattr(costs, "mean_seconds", lambda cost_class: 15.0)
    if away:
        broker.breaker.open()
    long = a_class("heavy", max_waiting=40, max_backlog_seconds=150.0)
    for n in range(9):
        _told(1, f"k{n}", base=15, spacing=0, cost_class=long)
    pacing._taken(whose(1, "last"), long, 15, 0, departure=15)
    assert _arrive(9, "new", long) == Arrival(kept=5, kept_seconds=75.0)


@pytest.mark.django_db
@WAYS
def test_the_last_places_are_for_those_who_were_told_to_come(away: bool, node: Any) -> None:
    if away:
        broker.breaker.open()
    light = a_class(max_waiting=8)
    for key in ("a", "b", "c", "d", "e"):
        _told(a_client().pk, key, base=0, spacing=0, cost_class=light)
    assert [verdict(submit(8)) for _ in range(8)] == ["admitted"] * 6 + ["queue_full"] * 2
    before = _returned("true"), _returned("false")
    refused = submit(8)
    assert isinstance(refused, admission.Rejected) and refused.kept == 4
    answers = {key: submit(8, idempotency=Idempotency(key, "f")) for key in ("a", "b", "stranger", "c", "d", "e")}
    assert [verdict(answer) for answer in answers.values()] == [
        *["admitted", "admitted", "queue_full"],
        *["admitted", "admitted", "queue_full"],
    ]
    assert (_returned("true") - before[0], _returned("false") - before[1]) == (4, 1)
    last = answers["d"]
    assert isinstance(last, Admitted)
    assert last.job.admitted_bound == job_rows.row(last.job.pk)["admitted_bound"] == 10


@pytest.mark.django_db
def test_the_work_of_those_who_were_told_to_come_is_kept_too_and_shares_are_of_the_whole_room(
    node: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two slots, 8 s of work on each: sixteen jobs of a second, of which eight are kept, and by the ninth half of it is there."""
    monkeypatch.setattr(costs, "mean_seconds", lambda cost_class: 1.0)
    light = a_class(max_waiting=40)
    for n in range(8):
        pacing._taken(whose(7, f"k{n}"), light, 0, 0, departure=0.5)

    def come(key: str | None = None) -> str:
        return verdict(submit(40, declared_cost_seconds=1.0, idempotency=key and Idempotency(key, "f")))

    assert [come() for _ in range(10)] == ["admitted"] * 9 + ["queue_full"]
    other = submit(40, declared_cost_seconds=1.0, client=a_client("other"))
    assert verdict(other) == "queue_full", "not for a share of what is left"


@pytest.mark.django_db
def test_batches_leave_the_kept_places_to_others_too_and_are_known_when_they_come(node: Any) -> None:
    light = a_class(max_waiting=8)
    for key in ("a", "b", "c", "d"):
        _told(a_client().pk, key, base=0, spacing=0, cost_class=light)

    def batch(size: int, key: str | None = None) -> Any:
        items = {f"i{n}": a_submission(8) for n in range(size)}
        return batches.submit(a_batch(items, idempotency=key and Idempotency(key, "f")))

    refused = batch(7)
    assert (batch_verdict(refused), refused.rejected.kept) == ("queue_full", 4)
    assert batch_verdict(batch(8, "a")) == "admitted"
    assert _returned("true") >= 1


@pytest.mark.django_db
def test_admissions_to_a_class_that_refused_nobody_ask_redis_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, ask = [], broker.ask

    def counted(call: Any) -> Any:
        asked.append(call)
        return ask(call)

    monkeypatch.setattr(broker, "ask", counted)
    for _ in range(20):
        pacing.arrive(whose(1, "a"), HEAVY)
    assert 1 <= len(asked) <= 2


@pytest.mark.django_db
def test_an_outbox_entry_has_its_turn_under_its_id(node: Any) -> None:
    entry = uuid.uuid4()
    assert admission._caller(a_submission(outbox_id=entry)) == whose(a_client().pk, str(entry))


@pytest.mark.django_db
def test_jobs_that_are_refused_in_a_row_are_told_different_turns(node: Any) -> None:
    """2 slots and the class's own 5 s while nothing is measured: 2.5 s apart."""
    job_rows.a_queued_job()
    job_rows.a_queued_job()
    answers = [submit(0, client=job_rows.a_client(f"c{n}")) for n in range(3)]
    assert [verdict(one) for one in answers] == ["queue_full"] * 3
    told = [one.retry_after_seconds for one in answers]  # type: ignore[union-attr]
    assert told[0] == 5 and 7 <= told[1] <= 8 and 9 <= told[2] <= 10


@pytest.mark.django_db
def test_header_and_body_agree_and_jitter_only_lengthens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacing, "JITTER_SHARE", 0.1)
    api = InProcessApi()
    a_probe_node("heavy", processes=1)
    params = {"seconds": 0, "cost_class": "heavy"}
    while (response := api.post("probe.sleep", params)).status_code == 202:
        pass
    told = [response, *(api.post("probe.sleep", params) for _ in range(3))]
    seconds = [problem(one, 503, "queue_full", retryable=True)["retry_after_seconds"] for one in told]
    assert [int(one.headers["Retry-After"]) for one in told] == seconds
    for one, least in zip(seconds, [5, 10, 15, 20], strict=True):
        assert least - 1 <= one <= least * 1.1 + 1


# ── Beside the fair door (P10a) ──────────────────────────────────────────────────────────────────────────────────────


@WAYS
def test_who_has_its_share_is_sent_to_turns_of_its_own_and_keeps_nobody_waiting(away: bool) -> None:
    if away:
        broker.breaker.open()
    own = [pacing._taken(whose(1, f"k{n}"), HEAVY, 15, 30, 15, wants_room=True, over_share=True) for n in range(3)]
    assert _near(own, [15, 45, 75]), own
    assert _near([_told(2, "a")], [15])


@pytest.mark.django_db
@WAYS
def test_who_had_its_share_lately_has_its_turns_behind_it_also_where_the_class_is_full(away: bool) -> None:
    """Or both kinds would be given for the same departures."""
    if away:
        broker.breaker.open()
    own = [pacing._taken(whose(1, "a"), HEAVY, 15, 30, 20, wants_room=True, over_share=True)]
    own += [_told(1, key, base=15, spacing=1) for key in "bc"]
    assert _near(own, [15, 45, 75]), own
    assert _near([_told(2, "a", base=15, spacing=1)], [15])
    assert (_arrive(1, "new").own_turns, _arrive(2, "new").own_turns) == (3, 0)


@pytest.mark.django_db
@WAYS
def test_of_its_share_as_much_is_kept_as_its_own_turns_are_near(away: bool) -> None:
    """For its client only; others are not kept waiting for it."""
    if away:
        broker.breaker.open()
    for n in range(3):  # at 15, 45, 75
        pacing._taken(whose(1, f"k{n}"), HEAVY, 15, 30, 15, wants_room=True, over_share=True)
    assert (_arrive(1, "new").own_turns, _arrive(2, "new").own_turns) == (2, 0)
    pacing._taken(whose(1, "due"), HEAVY, 0, 0, 15, wants_room=True, over_share=True)  # behind the others
    assert _arrive(1, "new", a_class("heavy", max_waiting=100)).own_turns == 4


def test_whom_other_processes_refused_comes_with_a_turn() -> None:
    pacing._taken(whose(1, None), HEAVY, 15, 15, 15, wants_room=True)
    pacing._taken(whose(2, None), HEAVY, 15, 15, 15)  # for its deadline: it wants no room that there is
    refused_lately.HERE.forget()  # as another process, which knows of none
    pacing._taken(whose(3, None), HEAVY, 15, 15, 15, wants_room=True)
    assert refused_lately.HERE.of("heavy") == [1, 3]
    with redis.Redis.from_url(settings.WEIGHBRIDGE_REDIS_URL) as server:
        server.zadd("weighbridge:turns:heavy:wanting", {1: time.time() - 61})
        refused_lately.HERE.forget()
        pacing._taken(whose(3, None), HEAVY, 15, 15, 15, wants_room=True)
        assert refused_lately.HERE.of("heavy") == [3]
        assert 0 < server.ttl("weighbridge:turns:heavy:wanting") <= 600
