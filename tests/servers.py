"""A pytest plugin: real PostgreSQL and Valkey for the whole session, up before Django reads its settings.

DATABASE_URL and REDIS_URL, when both are set, are used instead.
"""

import os
import shutil
import tempfile
from pathlib import Path

import psycopg
import pytest

from stack.local import Stack
from tests import cluster_template, kept_plans

PROGRAMS = ("web", "worker-light", "worker-heavy", "worker-control", "beat", "flower")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    if _only_hands_out(early_config):
        return
    data_dir = Path(tempfile.mkdtemp(prefix="weighbridge-tests-"))
    # The last of all clean-ups: they run in reverse, and the servers' needs what is in there.
    early_config.add_cleanup(lambda: shutil.rmtree(data_dir, ignore_errors=True))
    os.environ["WEIGHBRIDGE_DATA_DIR"] = str(data_dir / "own")
    cluster_template.install(data_dir / "cluster")
    kept_plans.install()
    if not (os.environ.get("DATABASE_URL") and os.environ.get("REDIS_URL")):
        servers = Stack(data_dir / "servers", {"DATABASE_URL": "", "REDIS_URL": ""}, without=PROGRAMS)
        servers.start()
        _spare_the_disk(servers.database_url)
        early_config.add_cleanup(servers.erase)
        os.environ.update(DATABASE_URL=servers.database_url, REDIS_URL=servers.redis_url)


def _spare_the_disk(database_url: str) -> None:
    """Nobody pulls the plug of these servers: a commit need not wait for the disk. Stacks under test have servers of their own."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("ALTER ROLE CURRENT_USER SET synchronous_commit = off")


def _only_hands_out(config: pytest.Config) -> bool:
    """With -n, the process that pytest was called in runs no test itself; each of its workers has servers of its own."""
    return bool(getattr(config.known_args_namespace, "numprocesses", None)) and "PYTEST_XDIST_WORKER" not in os.environ
