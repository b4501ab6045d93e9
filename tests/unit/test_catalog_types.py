"""The shipped job types as a caller finds them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jobs import registry
from jobs.classes import declared
from workers import catalog

SHIPPED = ["arrays.convolve", "http.aggregate", "numbers.sum_squares", "probe.sleep", "probe.spin"]
SHIPPED += ["reports.statistics", "routes.optimize"]
CHECKOUT = Path(__file__).parents[2]


def test_the_catalogue_registers_every_shipped_type():
    assert set(SHIPPED) <= set(registry.names())


def test_every_file_of_a_shipped_type_is_imported_by_the_catalogue():
    files = {path.stem for path in Path(catalog.__file__).parent.glob("*.py") if "\n@job(" in path.read_text()}
    assert files == {name.replace(".", "_") for name in SHIPPED}
    assert files <= vars(catalog).keys()


@pytest.mark.parametrize("name", SHIPPED)
def test_the_example_of_a_type_is_valid_and_has_a_class(name):
    job_type = registry.get(name)
    assert job_type is not None
    params = job_type.params.model_validate(job_type.example)
    assert job_type.weigh(params) in declared()


@pytest.mark.parametrize("name", SHIPPED)
def test_a_type_says_first_what_it_does(name):
    """It is its description in GET /types."""
    job_type = registry.get(name)
    assert job_type is not None
    described = (job_type.handler.__doc__ or "").strip()
    assert described[:1].isupper()
    assert "Returns {" in described


@pytest.mark.parametrize("name", SHIPPED)
def test_every_field_of_a_type_says_what_it_is(name):
    job_type = registry.get(name)
    assert job_type is not None
    fields = job_type.params.model_json_schema()["properties"]
    assert all(field.get("description") for field in fields.values())


def test_importing_the_catalogue_loads_no_solver():
    """The web processes import it too, and numpy with PyVRP takes 0.4 s and 20 MB."""
    code = (
        "import django, sys; django.setup(); import workers.catalog;"
        "print(sorted({'matplotlib', 'numpy', 'pyvrp', 'vrplib'} & set(sys.modules)))"
    )
    environment = {"DJANGO_SETTINGS_MODULE": "project.settings"} | os.environ
    ran = subprocess.run(
        [sys.executable, "-c", code],
        check=False,  # the assertion shows its error output
        cwd=CHECKOUT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ran.stdout.strip(), ran.returncode) == ("[]", 0), ran.stderr
