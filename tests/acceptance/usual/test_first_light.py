"""One job of each shipped kind goes all the way on the real stack."""

from pathlib import Path

from tests.acceptance.diary import Diary
from tests.api_client import Api

BERLIN52 = Path("stack/demo_data/berlin52.tsp")


def test_a_light_job_runs_and_its_result_can_be_read(api: Api) -> None:
    job = api.ended(api.submit("numbers.sum_squares", {"n": 10}))
    assert job["state"] == "succeeded"
    assert job["result"]["sum"] == 385
    assert job["attempt"] == 1
    assert job["timings"]["wait_seconds"] >= 0


def test_a_real_route_is_optimised_near_its_known_optimum(api: Api) -> None:
    job = api.ended(api.submit("routes.optimize", {"tsplib": BERLIN52.read_text(), "seconds": 1.5}), 60)
    assert job["state"] == "succeeded", job["error"]
    assert 7542 <= job["result"]["length"] <= 7542 * 1.01


def test_a_body_runs_once(api: Api, diary: Diary) -> None:
    api.ended(api.submit("tests.note", diary.params("once")))
    assert diary.began() == ["once"]
