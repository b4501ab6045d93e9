"""docs/authors.md is true: its example passes its own tests, and nothing that a handler is given is left out."""

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import workers
from jobs import costs, limit_keys, registry
from stack.ports import free_port
from stack.programs import ROOT
from workers import JobContext
from workers.testing import run

DOCS = (ROOT / "docs/authors.md").read_text()


def block(file: str) -> str:
    """The code of one file as the page prints it."""
    found = re.search(rf"```python\n# {re.escape(file)}\n(.*?)```", DOCS, re.DOTALL)
    assert found, f"the page has no {file}"
    return found[1]


def test_the_example_passes_its_tests_with_no_server_and_nothing_set_up(tmp_path: Path) -> None:
    for file in ("my_jobs.py", "test_my_jobs.py"):
        (tmp_path / file).write_text(block(file))
    told = _pytest(tmp_path, "test_my_jobs.py")
    assert f"{block('test_my_jobs.py').count(chr(10) + 'def test_')} passed" in told


def test_the_example_of_calls_runs(tmp_path: Path) -> None:
    (tmp_path / "my_offer.py").write_text(block("my_offer.py"))
    (tmp_path / "test_my_offer.py").write_text(block("test_my_offer.py"))
    assert "2 passed" in _pytest(tmp_path, "test_my_offer.py")


def test_the_example_of_cost_and_limit_keys_says_what_the_door_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_types", {})
    exec(compile(block("my_report.py"), "my_report.py", "exec", dont_inherit=True), {"__name__": "my_report"})
    report = registry.get("my.report")
    assert report is not None
    params = report.params.model_validate({"customer": "acme", "pages": 100})
    assert costs.declared(report, params, 60) == 2.5
    assert limit_keys.of(report, params) == ("renderer", "crm:acme")
    assert run(report.handler, params).result == {"pages": 100}


def test_the_example_of_files_runs(tmp_path: Path) -> None:
    (tmp_path / "my_words.py").write_text(block("my_words.py"))
    (tmp_path / "test_my_words.py").write_text(block("test_my_words.py"))
    assert "1 passed" in _pytest(tmp_path, "test_my_words.py")


def _pytest(folder: Path, file: str) -> str:
    """What it says of a file whose tests pass, in an environment where nothing is set and no server is there."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("WEIGHBRIDGE_", "DJANGO_", "PYTEST_"))
    }
    nowhere = f"127.0.0.1:{free_port()}"
    ours = {
        "PYTHONPATH": str(ROOT),
        "DATABASE_URL": f"postgresql://nobody@{nowhere}/x",
        "REDIS_URL": f"redis://{nowhere}/0",
        "WEIGHBRIDGE_DATA_DIR": str(folder / "data"),
    }
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", file],
        check=False,  # the assertion shows its output
        cwd=folder,
        env=kept | ours,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def _given_to_handlers() -> list[str]:
    made = inspect.getsource(JobContext.__init__)
    attributes = re.findall(r"self\.([a-z]\w*)\b(?=[^=\n]*=)", made)
    return sorted({*attributes, *(name for name in vars(JobContext) if not name.startswith("_"))})


@pytest.mark.parametrize("name", _given_to_handlers())
def test_the_page_names_everything_that_a_handler_is_given(name: str) -> None:
    assert re.search(rf"`ctx\.{name}\b", DOCS)


def test_the_list_of_what_a_handler_is_given_is_not_empty_by_accident() -> None:
    assert {"params", "log", "remaining", "once", "stopping"} <= set(_given_to_handlers())


@pytest.mark.parametrize(
    "name", [name for name in inspect.signature(run).parameters if name not in {"handler", "params"}]
)
def test_everything_that_a_test_can_say_is_explained(name: str) -> None:
    assert re.search(rf"\b{name}\b", DOCS) or re.search(rf"\b{name}\b.*:", run.__doc__ or "")


@pytest.mark.parametrize("page", ["README.md", "docs/authors.md"])
def test_the_hook_for_error_trackers_can_be_found(page: str) -> None:
    assert "`WEIGHBRIDGE_ON_ATTEMPT_FAILED`" in (ROOT / page).read_text()


@pytest.mark.parametrize("name", workers.__all__)
def test_the_page_names_everything_that_authors_import(name: str) -> None:
    assert re.search(rf"\b{name}\b", DOCS)
