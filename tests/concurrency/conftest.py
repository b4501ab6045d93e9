from collections.abc import Iterator

import pytest

from tests.clean_slate import clean_slate, other
from tests.concurrency.crowd import Crowd

__all__ = ["clean_slate", "other"]


@pytest.fixture(scope="session")
def crowd(django_db_setup: None) -> Iterator[Crowd]:
    """Four processes on the test database; gone before it is."""
    crowd = Crowd(4)
    yield crowd
    crowd.go_home()
