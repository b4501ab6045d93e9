"""A whole stack on this machine: real PostgreSQL, real Valkey, real web and worker processes."""

import logging
import os
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest

from stack.local import Stack
from stack.ports import free_port
from tests.acceptance import times
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
    asked = environ.get("PYTHONPATH") or os.environ.get("PYTHONPATH")
    path = os.pathsep.join([str(_no_tools()), *([asked] if asked else [])])
    return {**inherited, **SHORT, "WEIGHBRIDGE_PORT": str(free_port()), **environ, "PYTHONPATH": path}


@cache
def _no_tools() -> Path:
    """A folder that hides rich. Tools of development bring it, a stack that people run has none: structlog loads it when it is there,
    which takes 0.08 s of CPU at each start of a process."""
    folder = Path(os.environ["WEIGHBRIDGE_DATA_DIR"]).with_name("no-tools")  # goes with the session
    folder.mkdir()
    (folder / "rich.py").write_text("raise ImportError('hidden by the tests')\n")
    return folder


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
