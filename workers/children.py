"""What a pool child does to itself right after the fork. Runs in Celery's processes, never in the keeper."""

import gc
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from celery.signals import celeryd_init, task_prerun, worker_init, worker_process_init, worker_ready
from django.db import close_old_connections
from kombu.transport.redis import Channel
from redis.exceptions import ConnectionError as RedisConnectionError

from jobs import classes, notify
from workers import equipment
from workers.kernel import adopt_orphans, die_with_parent
from workers.limits import CANCEL_SIGNAL

CLASS_VARIABLE = "WEIGHBRIDGE_COST_CLASS"  # set by the keeper for its Celery
READY_VARIABLE = "WEIGHBRIDGE_READY_FD"
_OF_OTHERS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)  # a child ends when its keeper says so, or with it
_OF_OURS = (*_OF_OTHERS, signal.SIGALRM, CANCEL_SIGNAL)
_OOM_SCORE = 500  # a job that eats the memory dies before the keeper, the database or the web does
_CONSUMER_SOCKET_SECONDS = 5.0  # P32's half second is for publishers; a consumer must not flap under load


@worker_init.connect
def load_before_the_fork(**kwargs: Any) -> None:
    """The HTTP client takes half a second of CPU to load; a job with a short deadline should not pay for it.

    What is loaded by now is no garbage, and stays shared: a child that looked for garbage in it would copy all of it.
    """
    import workers.fanout  # noqa: F401

    gc.freeze()


@celeryd_init.connect
def patient_with_the_broker(conf: Any = None, **kwargs: Any) -> None:
    conf.broker_transport_options = {**conf.broker_transport_options, "socket_timeout": _CONSUMER_SOCKET_SECONDS}
    Channel._connparams = _connection_lost_not_attribute_error(Channel._connparams)  # type: ignore[attr-defined]


def _connection_lost_not_attribute_error(connparams: Callable[..., Any]) -> Callable[..., Any]:
    """kombu 5.7 acknowledges on a channel that it has closed already while Redis is away; the AttributeError that
    comes of it is "unrecoverable" to Celery, and would end the worker."""

    @wraps(connparams)
    def guarded(channel: Channel, *args: Any, **kwargs: Any) -> Any:
        if channel.connection is None or channel.connection.client is None:
            raise RedisConnectionError("the channel is closed")
        return connparams(channel, *args, **kwargs)

    return guarded


@worker_ready.connect
def tell_the_keeper(**kwargs: Any) -> None:
    """Celery consumes and its pool is up: the node's slots are real from here on."""
    fd = os.environ.pop(READY_VARIABLE, None)
    if fd is not None:
        os.write(int(fd), b"\n")
        os.close(int(fd))


@worker_process_init.connect
def settle_in(**kwargs: Any) -> None:
    """Order matters little, but all of it comes before the first job."""
    die_with_parent()
    adopt_orphans()  # of what a handler starts: they end with its job, before it could be started again (P16), and not sooner
    for number in _OF_OTHERS:
        signal.signal(number, signal.SIG_IGN)  # after this, billiard replaces whatever is not SIG_IGN
    # A handler may use the standard library's process pools; what it leaves of them ends with the job.
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]
    os.setsid()
    _be_nice()
    _make_forks_hear()
    notify.tell_of_ends()
    equipment.mine()  # its signal handlers stand before the keeper could send it one


@task_prerun.connect
def take_no_notice(**kwargs: Any) -> None:
    """Of a TERM to the group, which must not turn into SystemExit inside a job (P22).

    By a handler from here on: what a job's handler starts would inherit SIG_IGN, and never hear a terminate().
    """
    for number in _OF_OTHERS:
        signal.signal(number, _nothing)


def _make_forks_hear() -> None:
    """A process that a handler forks, for a pool of its own say, heeds a terminate() from its first instant on: what comes before
    our handlers are gone from it waits until then."""
    mine = threading.local()

    def hold_back() -> None:
        mine.mask = signal.pthread_sigmask(signal.SIG_BLOCK, _OF_OURS)

    def let_through() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mine.mask)

    def begin_anew() -> None:
        for number in _OF_OURS:
            signal.signal(number, signal.SIG_DFL)
        let_through()

    os.register_at_fork(before=hold_back, after_in_parent=let_through, after_in_child=begin_anew)


def _nothing(number: int, frame: object) -> None:
    pass


def _be_nice() -> None:
    name = os.environ.get(CLASS_VARIABLE, "")
    if name not in classes.declared():
        return  # the sweeps keep their priority
    os.nice(classes.get(name).nice)
    try:
        Path("/proc/self/oom_score_adj").write_text(str(_OOM_SCORE))
    except OSError:
        pass  # a container may forbid it; the job still runs


@task_prerun.connect
def fresh_connection(**kwargs: Any) -> None:
    """With the connection kept between tasks, this is what replaces one that was terminated (P34)."""
    close_old_connections()
