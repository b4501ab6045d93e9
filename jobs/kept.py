"""Answers that many ask for and that may be a second old."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any


class Kept:
    """Answers of `ask` by cost class, asked anew after a second, or so many: a flood of refusals costs one query.

    One caller at a time asks for a class, and no lock is held meanwhile. The others are given the old answer, or
    wait for the new one if there is none, so that a database that does not answer is waited for once, by all together.
    """

    def __init__(self, ask: Callable[[str], Any], seconds: float = 1.0) -> None:
        self._ask = ask
        self._seconds = seconds
        self._lock = threading.Lock()
        self._answers: dict[str, tuple[float, Any]] = {}
        self._asking: dict[str, Future[Any]] = {}

    def __call__(self, cost_class: str) -> Any:
        with self._lock:
            kept = self._answers.get(cost_class)
            asking = self._asking.get(cost_class)
            if kept is not None and (asking is not None or time.monotonic() - kept[0] <= self._seconds):
                return kept[1]
            if asking is None:
                ours = self._asking[cost_class] = Future[Any]()
        return self._ask_for_all(cost_class, ours) if asking is None else asking.result()

    def _ask_for_all(self, cost_class: str, promised: "Future[Any]") -> Any:
        """A failure is everybody's who waits, and keeps nothing: the next caller asks again."""
        try:
            answer = self._ask(cost_class)
        except BaseException as error:
            self._end_asking(cost_class, None)
            promised.set_exception(error)
            raise
        self._end_asking(cost_class, (time.monotonic(), answer))
        promised.set_result(answer)
        return answer

    def _end_asking(self, cost_class: str, answer: tuple[float, Any] | None) -> None:
        with self._lock:
            self._asking.pop(cost_class)
            self._answers.pop(cost_class, None)
            if answer is not None:
                self._answers[cost_class] = answer

    def forget(self) -> None:
        self._answers.clear()
