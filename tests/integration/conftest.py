import pytest

from jobs.models import WorkerNode
from tests import job_rows
from tests.clean_slate import clean_slate, other

__all__ = ["clean_slate", "other"]


@pytest.fixture
def node(db: None) -> WorkerNode:
    return job_rows.a_node()
