"""Wake-ups: sent after the commit, naming a class only, and never in the way of a caller (P14, P31, P32)."""

import base64
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis
from celery import Celery
from celery.app import app_or_default
from django.conf import settings as django_settings
from django.db import transaction

from jobs import broker, telemetry, wakeups
from jobs.admission import Admitted
from jobs.models import Job
from tests import job_rows
from tests.submissions import submit, verdict

PROMISE_SECONDS = 2.0  # a POST answers within this whatever Redis does


def _messages(cost_class: str = "light") -> list[bytes]:
    with redis.Redis.from_url(django_settings.WEIGHBRIDGE_REDIS_URL) as server:
        return list(server.lrange(cost_class, 0, -1))


# ── After the commit ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.django_db(transaction=True)
def test_a_wake_up_is_sent_with_the_commit_and_not_before() -> None:
    with transaction.atomic():
        wakeups.after_commit("light")
        assert len(_messages()) == 0
    assert len(_messages()) == 1


@pytest.mark.django_db(transaction=True)
def test_a_transaction_that_is_rolled_back_sends_nothing() -> None:
    job_rows.a_node()
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        assert verdict(submit()) == "admitted"
        raise ZeroDivisionError
    assert not Job.objects.exists()
    assert _messages() == []


@pytest.mark.django_db(transaction=True)
def test_an_accepted_job_sends_one_wake_up_and_a_refused_one_none() -> None:
    job_rows.a_node(processes=1)
    assert [verdict(submit(0)) for _ in range(3)] == ["admitted", "queue_full", "queue_full"]
    assert len(_messages()) == 1
    assert _messages("heavy") == []


@pytest.mark.django_db(transaction=True)
def test_nothing_is_sent_while_the_class_has_no_live_slot() -> None:
    assert verdict(submit()) == "admitted"
    assert _messages() == []


@pytest.mark.django_db(transaction=True)
def test_the_message_names_the_class_and_nothing_else() -> None:
    """P31: no id, no params, no label travels through the broker."""
    job_rows.a_node(types=("tests.secret",))
    answer = submit(
        type="tests.secret", params={"word": "xyzzy-param"}, labels={"l": "xyzzy-label"}, request_id="xyzzy-request"
    )
    assert isinstance(answer, Admitted)
    (raw,) = _messages()
    message = json.loads(raw)
    args, kwargs, _ = json.loads(base64.b64decode(message["body"]))
    assert (args, kwargs) == (["light"], {})
    assert message["headers"]["task"] == wakeups.TASK
    everything = raw.decode() + base64.b64decode(message["body"]).decode()
    for secret in ("xyzzy", str(answer.job.pk), answer.job.pk.hex, "tests.secret"):
        assert secret not in everything
    assert (message["headers"]["expires"], message["headers"]["eta"]) == (None, None)  # P33


def test_a_teams_own_celery_application_in_the_process_takes_no_wake_up() -> None:
    """Celery's current application is the one that was made last, and in other threads the first: neither need be ours."""
    usual = app_or_default()
    theirs = Celery("shop", broker="memory://", set_as_current=False)
    theirs.set_current()
    theirs.set_default()
    try:
        assert wakeups.publish("light")
        thread = threading.Thread(target=lambda: wakeups.publish("light"))
        thread.start()
        thread.join(20)
        assert len(_messages()) == 2
    finally:
        usual.set_current()
        usual.set_default()
        theirs.close()


# ── A Redis that is away ─────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _silent() -> Iterator[int]:
    """A port that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as server:
        yield server.getsockname()[1]


@contextmanager
def _refused() -> Iterator[int]:
    """A port where nobody listens: bound, so that nobody else can take it."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.fixture(params=[_refused, _silent], ids=["refused", "hanging"])
def broken_redis(request: pytest.FixtureRequest, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Celery, as the settings configure it, and our own client both talk to it until the test is over."""
    with request.param() as port:
        settings.WEIGHBRIDGE_REDIS_URL = settings.CELERY_BROKER_URL = f"redis://127.0.0.1:{port}/0"
        cut_off = Celery("cut off", set_as_current=False)
        cut_off.config_from_object("django.conf:settings", namespace="CELERY")
        monkeypatch.setattr(wakeups, "sender", cut_off)
        yield
        cut_off.close()


in_time = pytest.mark.parametrize(
    "broken_redis", [pytest.param(_refused, id="refused"), pytest.param(_silent, id="hanging")], indirect=True
)


def _timed(call: Any) -> tuple[Any, float]:
    began = time.monotonic()
    answer = call()
    return answer, time.monotonic() - began


@in_time
def test_publish_returns_in_time_the_first_and_the_tenth_time(broken_redis: None) -> None:
    calls = [_timed(lambda: wakeups.publish("light")) for _ in range(10)]
    assert [sent for sent, _ in calls] == [False] * 10
    assert max(seconds for _, seconds in calls) < PROMISE_SECONDS


@in_time
def test_publish_returns_in_time_also_when_the_breaker_tries_again(broken_redis: None) -> None:
    """Every breaker is closed again by time; the call that finds Redis still away pays once more, and no more."""
    for _ in range(2):
        broker.breaker.close()
        sent, seconds = _timed(lambda: wakeups.publish("light"))
        assert not sent
        assert seconds < PROMISE_SECONDS


@in_time
def test_all_threads_of_a_process_together_wait_no_longer(broken_redis: None) -> None:
    """P32: the first pays the time-out, the others know at once."""
    seconds: list[float] = []
    threads = [
        threading.Thread(target=lambda: seconds.append(_timed(lambda: wakeups.publish("light"))[1])) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(seconds) == 8
    assert max(seconds) < PROMISE_SECONDS


def test_the_breaker_is_one_for_all_calls(broken_redis: None) -> None:
    assert broker.breaker.current_state == "closed"
    assert not wakeups.publish("light")
    assert broker.breaker.current_state == "open"
    _, seconds = _timed(lambda: [wakeups.queue_length("light"), broker.answers()] * 20)
    assert seconds < 1  # forty time-outs of half a second would be twenty
    assert wakeups.queue_length("light") is None
    assert not broker.answers()


@pytest.mark.parametrize("ask", [lambda: wakeups.queue_length("light"), broker.answers])
def test_a_look_at_the_queue_opens_it_too_and_returns_in_time(broken_redis: None, ask: Any) -> None:
    answer, seconds = _timed(ask)
    assert not answer
    assert seconds < PROMISE_SECONDS
    assert broker.breaker.current_state == "open"


def test_a_wake_up_that_cannot_be_sent_is_counted(broken_redis: None) -> None:
    before = telemetry.PUBLISH_FAILED._value.get()
    wakeups.publish("light")
    wakeups.publish("light")
    assert telemetry.PUBLISH_FAILED._value.get() == before + 2


@in_time
@pytest.mark.django_db(transaction=True)
def test_a_job_is_accepted_and_stays_when_its_wake_up_cannot_be_sent(broken_redis: None) -> None:
    job_rows.a_node()
    answers = [_timed(submit) for _ in range(10)]
    assert [verdict(answer) for answer, _ in answers] == ["admitted"] * 10
    assert max(seconds for _, seconds in answers) < PROMISE_SECONDS
    assert Job.objects.filter(state="queued").count() == 10


def test_a_broker_that_answers_is_told_so() -> None:
    assert broker.answers()
    assert wakeups.queue_length("light") == 0
    assert wakeups.publish("light", 3)
    assert wakeups.queue_length("light") == 3


def test_wake_ups_of_one_class_are_sent_together() -> None:
    """A batch's hundred would else wait for the broker a hundred times."""
    assert wakeups.publish("light"), "connected"
    with redis.Redis.from_url(django_settings.WEIGHBRIDGE_REDIS_URL) as server:
        before = _reads(server)
        assert wakeups.publish("light", 100)
        assert _reads(server) - before < 50
    tags = {json.loads(raw)["properties"]["delivery_tag"] for raw in _messages()}
    assert len(tags) == 101, "each is a message of its own"


def _reads(server: Any) -> int:
    return int(server.info("stats")["total_reads_processed"])
