"""A whole stack on this machine: real PostgreSQL, real Valkey, real web and worker processes."""

import logging
import os
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from stack.local import Stack
from stack.ports import free_port
from tests import processes
from tests.acceptance import figures, readme, times
from tests.acceptance.diary import Diary
from tests.api_client import Api
from tests.history.recorder import History
from tests.history.watch import judged

# Everything that waits for time waits a fraction of the defaults.
SHORT = {
    "DATABASE_URL": "",
    "REDIS_URL": "",
    **times.SHORT.environ,
    "WEIGHBRIDGE_HEAVY_PROCESSES": "2",
    "WEIGHBRIDGE_JOB_MODULES": "tests.history.job_types",
}
QUIET = ("flower",)  # few tests need it
HEAVY_WAITING, LIGHT_WAITING = 60, 3  # of four_webs; the slots of each class are two
ARRIVAL_SECONDS = 10  # of four_webs
UNSWEPT = (*QUIET, "beat", "worker-control")  # for tests that need no sweep

logging.getLogger("httpx").setLevel(logging.WARNING)  # a line per request would bury what failed


def short_environment(**environ: str) -> dict[str, str]:
    """To be laid over our own environment, whose settings are taken away; the port is nobody else's."""
    inherited = {name: "" for name in os.environ if name.startswith("WEIGHBRIDGE_")}
    return {**inherited, **SHORT, "WEIGHBRIDGE_PORT": str(free_port()), **environ}


@pytest.fixture(scope="session", name="times")
def times_of_the_run(full: bool) -> times.Times:
    return times.DEFAULT if full else times.SHORT


@pytest.fixture(scope="module")
def start_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Stack]]:
    """start_stack(without=…, WEIGHBRIDGE_…="…") starts one with its own servers; all are stopped after the module."""
    with ExitStack() as running:

        def start(without: tuple[str, ...] = QUIET, settings_module: str | None = None, **environ: str) -> Stack:
            data_dir = tmp_path_factory.mktemp("stack") / "data"
            stack = Stack(data_dir, short_environment(**environ), settings_module, without)
            running.callback(stack.erase)
            return running.enter_context(stack)

        yield start


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stack, str]]:
    """A running stack, and its /metrics from before anything happened."""
    data_dir = tmp_path_factory.mktemp("shared") / "data"
    with Stack(data_dir, short_environment()) as running:
        yield running, figures.text(running)
    assert processes.that_know(data_dir) == {}, "a stack that was stopped leaves no process"
    running.erase()


@pytest.fixture(scope="session")
def stack(shared: tuple[Stack, str]) -> Stack:
    """One stack with short times, and Flower, for all tests that leave it as they found it."""
    return shared[0]


@pytest.fixture(scope="session")
def four_webs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """One stack for all tests of the door, and for the README's example: four web processes, and no sweep."""
    own_jobs = tmp_path_factory.mktemp("own-jobs")
    (own_jobs / f"{readme.MODULE}.py").write_text(readme.example())
    environ = short_environment(
        PYTHONPATH=str(own_jobs),
        WEIGHBRIDGE_JOB_MODULES=f"{SHORT['WEIGHBRIDGE_JOB_MODULES']},{readme.MODULE}",
        WEIGHBRIDGE_WEB_PROCESSES="4",
        WEIGHBRIDGE_ARRIVAL_SECONDS=str(ARRIVAL_SECONDS),
        WEIGHBRIDGE_HEAVY_MAX_WAITING=str(HEAVY_WAITING),
        WEIGHBRIDGE_LIGHT_MAX_WAITING=str(LIGHT_WAITING),
    )
    with Stack(tmp_path_factory.mktemp("four-webs") / "data", environ, without=UNSWEPT) as running:
        yield running
    running.erase()


@pytest.fixture(scope="session")
def metrics_at_start(shared: tuple[Stack, str]) -> str:
    return shared[1]


@pytest.fixture
def history(tmp_path: Path) -> History:
    """What the test's clients, bodies and nemeses did."""
    return History(tmp_path / f"{tmp_path.name}.jsonl")


@pytest.fixture
def api(stack: Stack, history: History) -> Iterator[Api]:
    with Api(stack.url, stack.key, history) as caller:
        yield caller


@pytest.fixture
def diary(history: History) -> Iterator[Diary]:
    """Its gate is opened in the end, so that a test that failed leaves no body waiting."""
    diary = Diary(history)
    yield diary
    diary.open_gate()


# --- Every test is watched ----------------------------------------------------------------------------------------

_recorded_on: dict[Path, list[History]] = {}  # by the data directory of the stack, in order


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Function) -> Generator[None, object, object]:
    """A test with a `stack` and a `history` that passes so far fails if the checker finds anything in its history."""
    stack, history = item.funcargs.get("stack"), item.funcargs.get("history")
    if not (isinstance(stack, Stack) and isinstance(history, History)):
        return (yield)
    earlier = _recorded_on.setdefault(stack.data_dir, [])
    try:
        outcome = yield
        Diary(history).open_gate()
        judged(history, stack, earlier).must_hold()
    finally:
        earlier.append(history)
    return outcome
