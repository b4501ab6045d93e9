"""An operator in the admin of a running stack, as far as a browser without scripts goes."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import httpx

from stack.local import Stack
from tests.history.events import CancelInvoked, CancelUnknown
from tests.history.recorder import History, now


class Operator:
    def __init__(self, browser: httpx.Client, history: History) -> None:
        self._browser = browser
        self._history = history

    def cancel(self, job_id: str) -> None:
        """By the button of its row. The page that follows does not say what became of it."""
        call = f"operator-{uuid4().hex[:8]}"
        self._history.append(CancelInvoked(call, job_id, now()))
        self.post(f"/admin/jobs/job/{job_id}/cancel/")
        self._history.append(CancelUnknown(call, job_id, "a page, not an answer", now()))

    def post(self, path: str, **fields: str) -> httpx.Response:
        answer = self._browser.post(path, data={"csrfmiddlewaretoken": self._browser.cookies["csrftoken"], **fields})
        assert answer.status_code == 200, answer.text
        return answer


@contextmanager
def operator(stack: Stack, history: History) -> Iterator[Operator]:
    """Logged in with the account that bin/up makes."""
    password = (stack.data_dir / "admin-password").read_text().strip()
    with httpx.Client(base_url=stack.url, follow_redirects=True) as browser:
        assert re.search("csrfmiddlewaretoken", browser.get("/admin/login/").text)
        one = Operator(browser, history)
        page = one.post("/admin/login/?next=/admin/", username="admin", password=password)
        assert "Log out" in page.text
        yield one
