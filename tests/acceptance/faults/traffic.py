"""A caller that goes on submitting whatever happens, and remembers what it was told."""

from collections import Counter
from threading import Event, Thread

import httpx

from stack.local import Stack
from tests.acceptance.diary import Diary
from tests.api_client import Api

PAUSE_SECONDS = 0.05


class Traffic:
    """with Traffic(stack, diary): one heavy `tests.note` after the other, from a thread."""

    def __init__(self, stack: Stack, diary: Diary) -> None:
        self.accepted: dict[str, str] = {}  # id → name
        self.answers: Counter[int | str] = Counter()  # by status; "unknown": the connection was cut
        self._stack, self._diary = stack, diary
        self._stopping = Event()
        self._thread = Thread(target=self._run)

    def _run(self) -> None:
        with Api(self._stack.url, self._stack.key, self._diary.history) as api:
            number = 0
            while not self._stopping.wait(PAUSE_SECONDS):
                number += 1
                self._submit(api, f"t{number}")

    def _submit(self, api: Api, name: str) -> None:
        try:
            response = api.post("tests.note", self._diary.params(name, seconds=0.05, cost_class="heavy"))
        except httpx.TransportError:
            self.answers["unknown"] += 1
            return
        self.answers[response.status_code] += 1
        if response.status_code == 202:
            self.accepted[response.json()["id"]] = name

    def __enter__(self) -> "Traffic":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopping.set()
        self._thread.join()
