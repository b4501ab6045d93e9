"""The README's example of a job type is what it says: complete, short, and it runs."""

import pytest

from stack.local import Stack
from tests.acceptance import readme
from tests.api_client import Api


@pytest.fixture
def stack(four_webs: Stack) -> Stack:
    """It knows the example, as a module on its path."""
    return four_webs


def test_the_example_runs_as_it_is_printed(api: Api) -> None:
    assert len(readme.example().strip().splitlines()) <= 20
    job = api.ended(api.submit(readme.request()["type"], readme.request()["params"]))
    assert job["state"] == "succeeded", job["error"]
    assert job["result"] == {"square": 144}
