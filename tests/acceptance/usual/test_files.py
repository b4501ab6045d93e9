"""A caller's file goes in, a worker computes on it, and what the job leaves comes out."""

import csv
import io

import httpx
import numpy as np

from stack.demo_jobs import PENGUINS
from stack.local import Stack
from tests.api_client import Api


def _upload(api: Api, content: bytes) -> str:
    response = api.http.post("/uploads", content=content)
    assert response.status_code == 201, response.text
    return str(response.json()["id"])


def _left(stack: Stack, api: Api, job: dict[str, object], name: str) -> httpx.Response:
    artifacts = job["artifacts"]
    assert isinstance(artifacts, list)
    link = next(one["link"] for one in artifacts if one["name"] == name)
    return api.http.get(f"{stack.url}{link}")


def test_a_table_becomes_figures_and_a_chart(stack: Stack, api: Api) -> None:
    upload = _upload(api, PENGUINS.read_bytes())
    job = api.ended(api.submit("reports.statistics", {"file": upload}), 60)
    assert (job["state"], job["result"]["rows"]) == ("succeeded", 344), job
    assert _left(stack, api, job, "chart.png").content.startswith(b"\x89PNG")
    table = csv.DictReader(io.StringIO(_left(stack, api, job, "statistics.csv").text))
    assert [row["name"] for row in table] == [column["name"] for column in job["result"]["columns"]]


def test_two_arrays_become_one(stack: Stack, api: Api) -> None:
    array, kernel = np.arange(50.0), np.array([0.25, 0.5, 0.25])
    ids = []
    for one in (array, kernel):
        file = io.BytesIO()
        np.save(file, one)
        ids.append(_upload(api, file.getvalue()))
    job = api.ended(api.submit("arrays.convolve", {"array": ids[0], "kernel": ids[1]}), 60)
    found = np.load(io.BytesIO(_left(stack, api, job, "convolved.npy").content), allow_pickle=False)
    assert np.allclose(found, np.convolve(array, kernel), atol=1e-9)
