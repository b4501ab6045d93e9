"""Handlers that do what handlers should not, for the tests of limits, cancels, retries and losses."""

import _thread
import faulthandler
import itertools
import json
import multiprocessing
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import redis
from django.conf import settings
from django.db import connection

from tests.history.job_types import RecordedParams, own_hand, recorded
from workers import Fail, JobContext, Retry, RetryLater, job
from workers.bulkheads import Bulkhead
from workers.http import Call


class Params(RecordedParams):
    """`how` names the behaviour; `note` is a file that a body may leave a word in, `url` a service that hangs, `seconds` how
    long some of them go on."""

    how: str
    seconds: float = 0.0
    note: str = ""
    url: str = ""
    cost_class: str = "heavy"


def _swallow(ctx: JobContext[Params]) -> None:
    while True:
        try:
            time.sleep(60)
        except BaseException:
            pass


def _swallow_for_a_while(ctx: JobContext[Params]) -> None:
    until = time.monotonic() + ctx.params.seconds
    while (left := until - time.monotonic()) > 0:
        try:
            time.sleep(left)
        except BaseException:
            pass


def _compute_in_c_for_a_while(ctx: JobContext[Params]) -> None:
    own_hand(ctx, "deaf")  # to its cancel: its keeper may end the process
    began = time.perf_counter()
    sum(itertools.repeat(1, 10**6))
    steps = ctx.params.seconds / (time.perf_counter() - began)
    sum(itertools.repeat(1, int(10**6 * steps)))


def _come_back_later(ctx: JobContext[Params]) -> None:
    raise RetryLater(60)


def _outwit_the_watchdog(ctx: JobContext[Params]) -> None:
    faulthandler.cancel_dump_traceback_later()
    _swallow(ctx)


def _loop(ctx: JobContext[Params]) -> None:
    while True:
        pass


def _hold_the_gil(ctx: JobContext[Params]) -> None:
    own_hand(ctx, "deaf")  # to its cancel: its keeper will end the process
    sum(itertools.repeat(1, 10**12))


def _ask_the_database(ctx: JobContext[Params]) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(60)")


def _read_a_socket(ctx: JobContext[Params]) -> None:
    silent, other = socket.socketpair()
    with silent, other:
        silent.recv(1)


def _start_a_process(ctx: JobContext[Params]) -> None:
    child = subprocess.Popen(["sleep", "1000"])
    Path(ctx.params.note).write_text(str(child.pid))
    time.sleep(60)


def _leave_a_process(ctx: JobContext[Params]) -> None:
    """A daemon in a session of its own, as careless libraries start them."""
    child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    Path(ctx.params.note).write_text(str(child.pid))


def _leave_a_thread(ctx: JobContext[Params]) -> None:
    threading.Thread(target=time.sleep, args=(1000,)).start()


def _leave_a_bare_thread(ctx: JobContext[Params]) -> None:
    runs = threading.Event()

    def stay() -> None:
        runs.set()
        time.sleep(1000)

    _thread.start_new_thread(stay, ())
    assert runs.wait(10)


def _leave_a_process_of_a_thread(ctx: JobContext[Params]) -> None:
    def start() -> None:
        _leave_a_process(ctx)
        time.sleep(1000)  # the process is this thread's child as long as it lives

    threading.Thread(target=start, daemon=True).start()
    while not Path(ctx.params.note).exists():
        time.sleep(0.01)


def _put_another_alarm(ctx: JobContext[Params]) -> None:
    """In the place of ours; its default is to end the process."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    _loop(ctx)


def _lower_its_limits(ctx: JobContext[Params]) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))


def _use_processes_of_its_own(ctx: JobContext[Params]) -> None:
    context = multiprocessing.get_context("fork")
    for _ in range(5):
        with context.Pool(2) as pool:
            assert pool.map(abs, [-1, -2]) == [1, 2]
    sleeper = context.Process(target=time.sleep, args=(100,))
    sleeper.start()
    sleeper.terminate()
    sleeper.join(10)
    assert sleeper.exitcode == -signal.SIGTERM


def _put_something_in_the_background(ctx: JobContext[Params]) -> None:
    """The shell ends at once, and what it started goes on."""
    subprocess.run(f"(sleep 1.5; echo done > {ctx.params.note}) &", shell=True, check=True)
    time.sleep(2.5)
    assert Path(ctx.params.note).read_text() == "done\n"


_DAEMON = "import os, sys, time; os.fork() and os._exit(0); os.setsid(); open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(1000)"


def _leave_a_daemon_and_come_back(ctx: JobContext[Params]) -> None:
    """It bears no mark; the next attempt must not meet it."""
    if ctx.attempt > 1:
        assert not Path(f"/proc/{Path(ctx.params.note).read_text()}").exists()
        Path(ctx.params.note).unlink()
    subprocess.run([sys.executable, "-I", "-S", "-c", _DAEMON, ctx.params.note], env={}, check=True)
    while not (Path(ctx.params.note).exists() and Path(ctx.params.note).read_text()):
        time.sleep(0.01)
    if ctx.attempt < 3:
        raise RetryLater(0)


def _hold(ctx: JobContext[Params], seconds: float = 60.0) -> None:
    """A file, a connection and a process of its own, and a place in a bulkhead, until it is ended for it."""
    word, address = Path(ctx.params.note), urlsplit(ctx.params.url)
    file = word.with_suffix(".held").open("w")
    line = socket.create_connection((address.hostname, address.port))
    child = subprocess.Popen(["sleep", "1000"])
    held = [os.readlink(f"/proc/self/fd/{one.fileno()}") for one in (file, line)]
    word.write_text(json.dumps({"pid": os.getpid(), "child": child.pid, "held": held}))
    ctx.fan_out({"hangs": Call(ctx.params.url, bulkhead=Bulkhead(word.parent, "held", 1))}, seconds)
    if seconds < 60:
        raise Fail("held", "It held so much.")  # with all of it in the frame


def _hold_and_fail(ctx: JobContext[Params]) -> None:
    _hold(ctx, 1.0)


def _hold_a_thread(ctx: JobContext[Params]) -> None:
    _leave_a_thread(ctx)
    _hold(ctx)


def _hold_and_swallow(ctx: JobContext[Params]) -> None:
    try:
        _hold(ctx)
    except BaseException:
        _swallow(ctx)


def _use_numpy(ctx: JobContext[Params]) -> None:
    import numpy

    assert numpy.linalg.det(numpy.eye(200)) == 1  # its library starts threads for it


def _use_the_database(ctx: JobContext[Params]) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT state FROM jobs_job WHERE id = %s", [ctx.job_id])
        assert cursor.fetchall() == [("running",)]


def _use_redis(ctx: JobContext[Params]) -> None:
    key = f"tests:{ctx.job_id}"
    with redis.Redis.from_url(settings.WEIGHBRIDGE_REDIS_URL) as client:
        client.set(key, "here", ex=60)
        assert client.getdel(key) == b"here"


def _die(ctx: JobContext[Params]) -> None:
    own_hand(ctx, "die")
    os.kill(os.getpid(), signal.SIGKILL)


def _die_between_two_files(ctx: JobContext[Params]) -> None:
    """The first attempt; a second one gets on."""
    for name in ("first", "second") if ctx.attempt == 1 else ("last",):
        with ctx.artifacts.create(name) as file:
            file.write(b"x")
            if name == "second":
                _die(ctx)


def _exit(ctx: JobContext[Params]) -> None:
    raise SystemExit(3)


def _run_out_of_memory(ctx: JobContext[Params]) -> None:
    raise MemoryError


def _fail(ctx: JobContext[Params]) -> None:
    raise Fail("no_route", "There is no way from a to b.", {"from": "a", "to": "b"})


def _say_when(ctx: JobContext[Params]) -> None:
    if ctx.attempt == 1:
        raise RetryLater(0.2)


def _always_raise(ctx: JobContext[Params]) -> None:
    raise RuntimeError("a secret that callers must not read")


def _log_and_wait(ctx: JobContext[Params]) -> None:
    ctx.log.info("a line that is kept")
    _swallow(ctx)


def _wait_to_be_stopped(ctx: JobContext[Params]) -> None:
    Path(ctx.params.note).write_text("running")
    while not ctx.stopping:
        time.sleep(0.02)
    Path(ctx.params.note).write_text("was told")


def _end_what_it_started(ctx: JobContext[Params]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        with subprocess.Popen(["sleep", "60"]) as started:
            started.send_signal(number)
            assert started.wait(10) == -number


BEHAVIOURS: dict[str, Callable[[JobContext[Params]], None]] = {
    "swallow": _swallow,
    "swallow for a while": _swallow_for_a_while,
    "compute in C for a while": _compute_in_c_for_a_while,
    "come back later": _come_back_later,
    "end what it started": _end_what_it_started,
    "outwit the watchdog": _outwit_the_watchdog,
    "loop": _loop,
    "hold the GIL": _hold_the_gil,
    "ask the database": _ask_the_database,
    "read a socket": _read_a_socket,
    "start a process": _start_a_process,
    "leave a process": _leave_a_process,
    "leave a thread": _leave_a_thread,
    "leave a bare thread": _leave_a_bare_thread,
    "leave a process of a thread": _leave_a_process_of_a_thread,
    "put another alarm": _put_another_alarm,
    "lower its limits": _lower_its_limits,
    "use processes of its own": _use_processes_of_its_own,
    "put something in the background": _put_something_in_the_background,
    "leave a daemon and come back": _leave_a_daemon_and_come_back,
    "hold": _hold,
    "hold a thread": _hold_a_thread,
    "hold and fail": _hold_and_fail,
    "hold and swallow": _hold_and_swallow,
    "use numpy": _use_numpy,
    "use the database": _use_the_database,
    "use Redis": _use_redis,
    "die": _die,
    "exit": _exit,
    "die between two files": _die_between_two_files,
    "run out of memory": _run_out_of_memory,
    "fail": _fail,
    "say when": _say_when,
    "always raise": _always_raise,
    "log and wait": _log_and_wait,
    "wait to be stopped": _wait_to_be_stopped,
}


@job(
    "tests.behave",
    cost_class=lambda params: params.cost_class,
    params=Params,
    retry=Retry(max_attempts=3, base_seconds=0.2, cap_seconds=0.2),
)
def behave(ctx: JobContext[Params]) -> str:
    """Do as `how` says; return it, if that ever comes."""
    with recorded(ctx):
        BEHAVIOURS[ctx.params.how](ctx)
    return ctx.params.how


@job("tests.once_only", cost_class=lambda params: params.cost_class, params=Params, max_deliveries=1)
def once_only(ctx: JobContext[Params]) -> str:
    """As tests.behave, but a lost attempt is the last."""
    return behave(ctx)
