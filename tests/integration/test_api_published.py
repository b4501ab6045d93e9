"""What people open first: the start page, the documentation, and the schema in its two forms."""

import re
from typing import Any

import pytest
import yaml
from django.contrib.staticfiles import finders

from jobs import registry
from jobs.keys import READ, SUBMIT
from tests.in_process_api import InProcessApi, Web, problem

ELSEWHERE = "10.0.0.7"
PAGES = ["/", "/api/docs/"]


def _schema(web: Web | None = None, address: str = "/api/schema/", **headers: str) -> Any:
    response = (web or Web()).get(address, headers=headers)
    assert response.status_code == 200, response.content
    return response


def _types_in(document: dict[str, Any]) -> list[str]:
    schemas = document["components"]["schemas"]
    return sorted(n.removeprefix("Submit.") for n in schemas if n.startswith("Submit."))


def test_the_schema_names_every_job_type_on_this_machine() -> None:
    """This test may not touch the database: a query would be an error."""
    response = _schema()
    assert response.headers["Content-Type"] == "application/json"
    assert _types_in(response.json()) == registry.names()


@pytest.mark.parametrize(
    ("address", "accept"),
    [
        ("/api/schema/?format=yaml", "application/json"),
        ("/api/schema/", "application/yaml"),
        ("/api/schema/", "application/vnd.oai.openapi+yaml"),
    ],
)
def test_the_schema_comes_as_yaml_if_asked_for(address: str, accept: str) -> None:
    response = _schema(address=address, Accept=accept)
    assert response.headers["Content-Type"] == "application/yaml"
    assert yaml.safe_load(response.content) == _schema().json()


@pytest.mark.parametrize("query", ["format=xml", "format=", "format=json&format=yaml", "form=json"])
def test_another_form_is_refused(query: str) -> None:
    members = problem(Web().get(f"/api/schema/?{query}"), 422, "invalid_request")
    assert members["errors"]


@pytest.mark.parametrize("address", ["/api/schema", "/api/docs"])
def test_without_its_slash_an_address_leads_to_the_one_with(address: str) -> None:
    response = Web().get(address)
    assert (response.status_code, response.headers["Location"]) == (301, f"{address}/")


@pytest.mark.django_db
@pytest.mark.parametrize(("scopes", "told"), [((READ,), True), ((SUBMIT,), False)])
def test_elsewhere_the_types_are_for_those_who_may_list_them(scopes: tuple[str, ...], told: bool) -> None:
    response = InProcessApi(*scopes).send("GET", "/api/schema/", REMOTE_ADDR=ELSEWHERE)
    assert _types_in(response.json()) == (registry.names() if told else [])
    assert "Authorization" in response.headers["Vary"]


@pytest.mark.django_db
def test_a_stranger_elsewhere_reads_the_rest() -> None:
    document = _schema(Web(REMOTE_ADDR=ELSEWHERE)).json()
    assert _types_in(document) == []
    assert "/api/v1/jobs" in document["paths"]


@pytest.mark.parametrize("path", PAGES)
def test_a_page_asks_no_other_host_and_holds_no_script(path: str) -> None:
    response = Web().get(path)
    page, policy = response.content.decode(), response.headers["Content-Security-Policy"]
    assert not re.search(r"https?:|src=\"//|href=\"//", page)
    assert not re.search(r"<script(?![^>]* src=)|<style| style=| on\w+=", page)
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert not re.search(r"https?:|\*", policy)


@pytest.mark.parametrize("path", PAGES)
def test_every_file_of_a_page_is_one_of_ours(path: str) -> None:
    files = re.findall(r"(?:src|href)=\"/static/([^\"]+)\"", Web().get(path).content.decode())
    assert files
    assert [file for file in files if finders.find(file) is None] == []


@pytest.mark.django_db
def test_the_start_page_leads_to_what_there_is() -> None:
    """To the login where one is needed."""
    links = re.findall(r"<a href=\"([^\"]+)\"", Web().get("/").content.decode())
    assert {"/api/docs/", "/admin/", "/healthz"} <= set(links)
    assert {Web().get(link, follow=True).status_code for link in links} == {200}


@pytest.mark.parametrize("path", [*PAGES, "/api/schema/", "/healthz", "/readyz", "/metrics"])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "BREW"])
def test_what_is_only_read_takes_no_other_method(path: str, method: str) -> None:
    response = Web().generic(method, path)
    problem(response, 405, "method_not_allowed")
    assert response.headers["Allow"] == "GET, HEAD"
