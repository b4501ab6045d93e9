"""Options of the whole suite."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--full", action="store_true", help="the long counts, with the default times, instead of the short"
    )


# Stacks that several files use. Each would be started once more in the other half of the tests.
SHARED_STACKS = ("shared", "four_webs", "misbehaving", "hurt_stack")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With -n: what uses one stack stays together, and so does what is in one file."""
    for item in items:
        used = [stack for stack in SHARED_STACKS if stack in getattr(item, "fixturenames", ())]
        item.add_marker(pytest.mark.xdist_group(used[0] if used else str(item.path)))


@pytest.fixture(scope="session")
def full(pytestconfig: pytest.Config) -> bool:
    """Whether the long counts were asked for."""
    return bool(pytestconfig.getoption("--full"))
