import pytest

from jobs.models import WorkerNode
from tests import job_rows
from tests.clean_slate import clean_slate, other
from tests.integration.attempts import played_node, run

__all__ = ["clean_slate", "other", "played_node", "run"]


@pytest.fixture
def node(db: None) -> WorkerNode:
    return job_rows.a_node()
