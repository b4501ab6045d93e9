"""The README's own example of a job type, and the request that it shows for it."""

import json
import re
from typing import Any

from stack.programs import ROOT

README = (ROOT / "README.md").read_text()
MODULE = "my_jobs"


def example() -> str:
    found = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert found, "the README has no python block"
    return found[1]


def request() -> dict[str, Any]:
    found = re.search(r"-d '(\{.*\})'", README)
    assert found, "the README shows no request"
    return dict(json.loads(found[1]))
