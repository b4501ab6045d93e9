"""Options of the whole suite."""

import gc
from collections.abc import Generator
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--full", action="store_true", help="the long counts, with the default times, instead of the short"
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Five thousand tests and what they import stay to the end: to look for garbage among them, again and again, takes seconds."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With -n: what shares a stack stays together, or the other half of the tests would start it once more."""
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

    class ByStack(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            """A folder below tests/acceptance is for tests of one stack; anywhere else a file is by itself."""
            file = nodeid.partition("::")[0]
            folder = file.rpartition("/")[0]
            return folder if folder.startswith("tests/acceptance/") else file

    return ByStack(config, log)


@pytest.fixture(scope="session", autouse=True)
def flush_fast() -> None:
    from tests import fast_flush  # only now: it needs Django's settings

    fast_flush.install()


@pytest.fixture(scope="session", autouse=True)
def cheap_passwords() -> None:
    """Django's own hash takes half a second of CPU for each person that a test makes or logs in, which is its purpose."""
    from django.conf import settings

    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture(scope="session")
def full(pytestconfig: pytest.Config) -> bool:
    """Whether the long counts were asked for."""
    return bool(pytestconfig.getoption("--full"))
