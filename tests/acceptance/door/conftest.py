"""One stack for all tests of the door, with many who serve it."""

from collections.abc import Iterator

import pytest

from stack.local import Stack
from tests.acceptance import readme
from tests.acceptance.conftest import ARRIVAL_SECONDS, HEAVY_WAITING, LIGHT_WAITING, SHORT, UNSWEPT, short_environment


@pytest.fixture(scope="package")
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
