from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clean_slate import clean_slate, other
from tests.concurrency import recorded
from tests.concurrency.crowd import Crowd, database_url

__all__ = ["clean_slate", "other"]


@pytest.fixture(scope="session")
def crowd(django_db_setup: None) -> Iterator[Crowd]:
    """Four processes on the test database; gone before it is."""
    crowd = Crowd(4)
    yield crowd
    crowd.go_home()


@pytest.fixture
def history(tmp_path: Path, transactional_db: None) -> Iterator[Path]:
    """Of what was asked of the door and what it answered; judged at the end."""
    path = tmp_path / f"{tmp_path.name}.jsonl"
    yield path
    recorded.judge(path, database_url())
