"""Whose a key is, as the event loop learns it from answers: it asks no database."""

from typing import Any

import pytest

from project.callers import Callers
from project.wsgi_call import Answer
from tests.unit.http_wire import scope


def asking(key: str | None) -> dict[str, Any]:
    return scope(headers={} if key is None else {"Authorization": f"Bearer {key}"})


def answer(status: int, owner: int | None = None) -> Answer:
    return Answer(status, [], b"", owner=owner)


@pytest.mark.parametrize(
    ("told", "owner"),
    [(answer(202, 7), 7), (answer(403, 7), 7), (answer(401), None), (answer(404), None), (None, None)],
)
def test_whose_a_key_is_comes_of_an_answer_that_says_so(told: Answer | None, owner: int | None) -> None:
    callers = Callers()
    callers.learn(asking("a"), told)
    assert callers.owner_of(asking("a")) == owner
    assert callers.owner_of(asking("b")) is None


def test_a_key_that_is_not_good_any_more_is_a_stranger_s_again() -> None:
    callers = Callers()
    callers.learn(asking("a"), answer(202, 7))
    callers.learn(asking("a"), answer(503))  # which says nothing of it
    assert callers.owner_of(asking("a")) == 7
    callers.learn(asking("a"), answer(401))
    assert callers.owner_of(asking("a")) is None


def test_a_person_is_known_by_its_session_and_by_no_other_cookie() -> None:
    callers = Callers()
    inside = scope(headers={"Cookie": "csrftoken=x; sessionid=abc"})
    callers.learn(inside, answer(200, 7))
    assert callers.owner_of(scope(headers={"Cookie": "sessionid=abc; csrftoken=other"})) == 7
    for cookie in ("sessionid=other", "csrftoken=abc", "xsessionid=abc", "sessionid="):
        assert callers.owner_of(scope(headers={"Cookie": cookie})) is None


def test_who_has_no_key_stays_a_stranger() -> None:
    callers = Callers()
    callers.learn(asking(None), answer(200, 7))
    assert callers.owner_of(asking(None)) is None


def test_of_too_many_keys_those_are_forgotten_that_were_not_used_for_longest() -> None:
    callers = Callers(most_keys=2)
    for key, owner in (("a", 1), ("b", 2)):
        callers.learn(asking(key), answer(202, owner))
    callers.owner_of(asking("a"))
    callers.learn(asking("c"), answer(202, 3))
    assert [callers.owner_of(asking(key)) for key in "abc"] == [1, None, 3]


def test_no_key_is_kept_as_it_is() -> None:
    callers = Callers()
    callers.learn(asking("secret"), answer(202, 7))
    assert b"secret" not in b"".join(callers._of)
