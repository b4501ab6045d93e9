"""What a batch tells of its results is bounded, whatever they are together: the largest are left out, and said where to find."""

from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from jobs import lifecycle
from jobs.batches.reading import MOST_DATA_BYTES
from jobs.lifecycle import Outcome
from jobs.states import State
from tests.batch_calls import BATCHES, batch, job_of, probes, run, start, submitted
from tests.in_process_api import InProcessApi

pytestmark = pytest.mark.django_db

MIB = 1024 * 1024
KEY = 1  # the query that finds the API key


@pytest.fixture
def api() -> InProcessApi:
    return InProcessApi()


def _json_of(size_bytes: int) -> str:
    """A string that is as JSON as large as this."""
    return "x" * (size_bytes - 2)


def _ran(api: InProcessApi, sizes: dict[str, int]) -> str:
    """The id of a batch whose items each brought so many bytes."""
    told = submitted(api, probes(*sizes))
    for name, size in sizes.items():
        run(told["id"], name, _json_of(size))
    return str(told["id"])


def _omitted(told: dict[str, Any]) -> set[str]:
    return {name for name, result in told["results"].items() if "omitted" in result}


def test_results_that_are_together_as_large_as_they_may_be_are_all_told(api: InProcessApi) -> None:
    told = batch(api, _ran(api, {"a": MIB, "b": MIB, "c": MIB, "d": MOST_DATA_BYTES - 3 * MIB}))
    assert _omitted(told) == set()
    assert [len(result["data"]) for result in told["results"].values()] == [MIB - 2] * 4


def test_a_byte_more_and_one_is_left_out_with_the_place_where_it_is(api: InProcessApi) -> None:
    batch_id = _ran(api, {"a": MIB, "b": MIB, "c": MIB, "d": MOST_DATA_BYTES - 3 * MIB, "e": 3})
    told = batch(api, batch_id)
    assert _omitted(told) == {"d"}, "the last of the largest"
    whole = f"/api/v1/jobs/{told['jobs']['d']}/result"
    left_out = {"ok": True, "data": None, "job": told["jobs"]["d"], "omitted": True, "links": {"whole": whole}}
    assert told["results"]["d"] == left_out
    assert api.get(whole.removeprefix("/api/v1")).json() == _json_of(MIB)
    assert (told["partial"], told["counts"]["ok"], told["results"]["e"]["data"]) == (False, 5, "x")


def test_one_that_is_larger_than_all_may_be_takes_the_place_of_no_other(api: InProcessApi) -> None:
    told = batch(api, _ran(api, {"huge": MOST_DATA_BYTES + 1, "a": 10, "b": MIB}))
    assert _omitted(told) == {"huge"}
    assert (told["results"]["a"]["data"], len(told["results"]["b"]["data"])) == (_json_of(10), MIB - 2)


def test_the_details_of_errors_count_too(api: InProcessApi) -> None:
    told = submitted(api, probes("a", "b", "c"))
    for name, size in (("a", 2 * MIB), ("b", 2 * MIB), ("c", 10)):
        start(told["id"], name)
        failed = Outcome(State.FAILED, error_code="no_route", error_message="None.", error_details=_json_of(size))
        lifecycle.settle(job_of(told["id"], name).pk, 1, failed)
    seen = batch(api, told["id"])
    assert _omitted(seen) == {"b"}
    b = seen["results"]["b"]
    assert (b["error"]["code"], b["error"]["details"]) == ("no_route", None)
    assert api.get(b["links"]["whole"].removeprefix("/api/v1")).json()["error"]["details"] == _json_of(2 * MIB)
    assert seen["results"]["c"]["error"]["details"] == _json_of(10)


def test_thirty_large_results_cost_one_query_and_a_bounded_answer(
    api: InProcessApi, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    batch_id = _ran(api, {f"i{number}": MIB for number in range(30)})
    batch(api, batch_id)  # which seals it, once
    with django_assert_num_queries(KEY + 1):
        response = api.get(f"/batches/{batch_id}")
    assert MOST_DATA_BYTES <= len(response.content) < MOST_DATA_BYTES + 16_384
    assert len(_omitted(response.json())) == 30 - MOST_DATA_BYTES // MIB


def test_what_a_key_may_not_read_is_not_said_to_be_elsewhere(api: InProcessApi) -> None:
    """It is told no data of any item."""
    batch_id = _ran(api, {"a": MOST_DATA_BYTES + 1})
    only_cancels = InProcessApi("jobs:cancel")
    only_cancels.client.keys.update(client=api.client)
    told = only_cancels.send("DELETE", f"{BATCHES}/{batch_id}").json()
    assert told["results"]["a"] == {"ok": True, "data": None, "job": told["jobs"]["a"]}
