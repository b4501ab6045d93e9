"""Client threads that submit, cancel and look at recorded jobs until they are told to stop."""

import random
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

import httpx

from stack.local import Stack
from tests.api_client import ACCEPTED, Api
from tests.history.recorder import History

CLASSES = ("light", "heavy")
DRAIN_SECONDS = 90.0  # the longest wait of the heavy class and its last runs
# Together a little more than two light and two heavy processes can do, so that refusals come too.
SUBMITTERS, SUBMIT_EVERY_SECONDS = 4, 0.08
CANCEL_EVERY_SECONDS, LOOK_EVERY_SECONDS = 0.2, 0.06
HEAVY_SHARE = 0.15
# Longer than any answer may take, so that what is called unknown was really cut.
TIMEOUT_SECONDS = 30.0


class Storm:
    """Runs inside `with`; `drained()` after it. What a thread raised is raised at its end."""

    def __init__(self, stack: Stack, history: History, seed: int) -> None:
        self._stack = stack
        self._history = history
        self._seed = seed
        self._stop = threading.Event()
        self._errors: list[BaseException] = []
        self.accepted: list[str] = []  # appended to by every submitter, only ever read by index
        self.submits = 0  # about: threads may lose one to each other
        self._threads = [self._thread(f"submit{n}", self._submit, SUBMIT_EVERY_SECONDS) for n in range(SUBMITTERS)]
        self._threads.append(self._thread("cancel", self._cancel, CANCEL_EVERY_SECONDS))
        self._threads.append(self._thread("look", self._look, LOOK_EVERY_SECONDS))

    def _thread(self, name: str, act: Callable[[Api, random.Random], None], every: float) -> threading.Thread:
        return threading.Thread(name=name, target=self._run, args=(name, act, every), daemon=True)

    def _run(self, name: str, act: Callable[[Api, random.Random], None], every_seconds: float) -> None:
        dice = random.Random(f"{self._seed} {name}")
        try:
            with self._client() as api:
                while not self._stop.wait(dice.uniform(0, 2 * every_seconds)):
                    with suppress(httpx.TransportError):  # it is in the history
                        act(api, dice)
        except BaseException as error:
            self._errors.append(error)

    def _client(self) -> Api:
        return Api(self._stack.url, self._stack.key, self._history, TIMEOUT_SECONDS)

    def _submit(self, api: Api, dice: random.Random) -> None:
        heavy = dice.random() < HEAVY_SHARE
        seconds = dice.uniform(0.2, 1.5) if heavy else dice.uniform(0.0, 0.15)
        params = {"cost_class": CLASSES[heavy], "seconds": seconds, "fails": dice.random() < 0.05}
        if dice.random() < 0.5:
            self._submit_once(api, params)
        else:
            self._submit_under_a_key(api, params, f"key{dice.getrandbits(64):x}", dice.random() < 0.2)

    def _submit_once(self, api: Api, params: dict[str, object], key: str = "") -> httpx.Response:
        self.submits += 1
        answer = api.post("tests.note", params, key)
        if answer.status_code in ACCEPTED and "Idempotency-Replayed" not in answer.headers:
            self.accepted.append(answer.json()["id"])
        return answer

    def _submit_under_a_key(self, api: Api, params: dict[str, object], key: str, needlessly: bool) -> None:
        """Again until it has an answer, as callers who hold a key do; and once more though it has, as careless ones do."""
        for _ in range(20):
            with suppress(httpx.TransportError):
                if "outcome_unknown" not in self._submit_once(api, params, key).json():
                    break
            self._stop.wait(0.5)
        if needlessly:
            self._submit_once(api, params, key)

    def _cancel(self, api: Api, dice: random.Random) -> None:
        """One that waits, or one that has ended; one in three is asked for twice."""
        job_id = _one_of_the_last(self.accepted, dice.choice([20, 400]), dice)
        if job_id is not None:
            for _ in range(2 if dice.random() < 0.3 else 1):
                api.cancel(job_id)

    def _look(self, api: Api, dice: random.Random) -> None:
        """Half of those that are seen to run are cancelled at once, before they end."""
        job_id = _one_of_the_last(self.accepted, 100, dice)
        if job_id is not None and _is_running(api.look(job_id)) and dice.random() < 0.5:
            api.cancel(job_id)

    def __enter__(self) -> "Storm":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
        if self._errors:
            raise self._errors[0]

    def drained(self) -> None:
        """Wait until nothing waits and nothing runs, then look at every accepted job once more."""
        with self._client() as api:
            for name in CLASSES:
                api.drained(name, DRAIN_SECONDS)
            for job_id in self.accepted:
                api.look(job_id)


def _is_running(answer: httpx.Response) -> bool:
    return answer.status_code == 200 and answer.json()["state"] == "running"


def _one_of_the_last(jobs: list[str], count: int, dice: random.Random) -> str | None:
    known = len(jobs)
    return jobs[dice.randrange(max(0, known - count), known)] if known else None
