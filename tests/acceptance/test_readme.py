"""The README's example of a job type is what it says: complete, short, and it runs."""

import json
import re
from collections.abc import Callable
from pathlib import Path

from stack.local import Stack
from tests.acceptance.conftest import UNSWEPT
from tests.api_client import Api

README = Path("README.md").read_text()


def test_the_example_runs_as_it_is_printed(start_stack: Callable[..., Stack], tmp_path: Path) -> None:
    example = _block("python")
    assert len(example.strip().splitlines()) <= 20
    (tmp_path / "my_jobs.py").write_text(example)

    stack = start_stack(UNSWEPT, PYTHONPATH=str(tmp_path), WEIGHBRIDGE_JOB_MODULES="my_jobs")

    request = json.loads(re.search(r"-d '(\{.*\})'", README)[1])  # type: ignore[index]
    with Api(stack.url, stack.key) as api:
        job = api.ended(api.submit(request["type"], request["params"]))
    assert job["state"] == "succeeded", job["error"]
    assert job["result"] == {"square": 144}


def _block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", README, re.DOTALL)
    assert found, f"the README has no {language} block"
    return found[1]
