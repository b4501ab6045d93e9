"""What holds for every test that needs no server."""

import atexit

import pytest


@pytest.fixture(autouse=True)
def forks_end_nothing_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fork ends as a program does, with what was registered for its exit: of these tests' process too, which would end its other children."""
    monkeypatch.setattr(atexit, "_run_exitfuncs", lambda: None)
