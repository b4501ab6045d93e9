"""Numbers that are fine alone and wrong together."""

from typing import Any

import pytest

from jobs import checks, classes, registry
from jobs.registry import JobType, NoParams, WrongJobType


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone after it."""
    monkeypatch.setattr(registry, "_types", {})


def _register(cost_class: Any, timeout: float | None = None) -> None:
    registry.register(JobType("a.b", print, NoParams, cost_class=cost_class, timeout_seconds=timeout))


def test_a_type_of_a_declared_class_is_possible() -> None:
    _register("light")
    checks.refuse_impossible_types()


def test_a_type_of_an_undeclared_class_is_refused() -> None:
    _register("lite")
    with pytest.raises(WrongJobType, match=r"'a\.b' names cost class 'lite'; declared are light, heavy\."):
        checks.refuse_impossible_types()


def test_a_type_may_run_up_to_the_ceiling_of_its_class() -> None:
    _register("light", classes.get("light").ceiling_seconds)
    checks.refuse_impossible_types()


def test_a_type_that_may_run_longer_than_its_class_is_refused() -> None:
    ceiling = classes.get("light").ceiling_seconds
    _register("light", ceiling + 0.5)
    with pytest.raises(
        WrongJobType, match=rf"a timeout of {ceiling + 0.5:g} s, above the ceiling of class 'light', {ceiling:g} s"
    ):
        checks.refuse_impossible_types()


def test_a_class_that_depends_on_params_is_judged_at_the_door() -> None:
    _register(lambda params: "lite", 10_000)
    checks.refuse_impossible_types()


@pytest.mark.parametrize(("beyond", "warned"), [(0, False), (-1, True), (1, False)])
def test_more_processes_than_cores_are_warned_of(beyond: int, warned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    most = max(c.processes for c in classes.declared().values())
    monkeypatch.setattr(checks, "usable_cores", lambda: most + beyond)
    found = checks.processes_fit_the_cores()
    assert {message.id for message in found} == ({"jobs.W001"} if warned else set())
    assert all(message.hint and "_PROCESSES sets the number" in message.hint for message in found)


@pytest.mark.parametrize(
    ("lease", "beat", "sweep", "found"),
    [
        (30, 1, 1, []),
        (3, 1, 1, []),
        (3, 1, 0.2, []),
        (2.9, 1, 0.2, ["jobs.E004"]),
        (29, 10, 4, ["jobs.E004"]),
        (12, 1, 4, []),
        (11, 1, 4, ["jobs.E005"]),
        (1, 10, 4, ["jobs.E004", "jobs.E005"]),
    ],
)
def test_a_lease_outlasts_three_beats_and_a_gap_between_sweeps(
    settings: Any, lease: float, beat: float, sweep: float, found: list[str]
) -> None:
    settings.WEIGHBRIDGE_LEASE_SECONDS = lease
    settings.WEIGHBRIDGE_BEAT_SECONDS, settings.WEIGHBRIDGE_SWEEP_SECONDS = beat, sweep
    messages = checks.the_timings_fit()
    assert [message.id for message in messages] == found
    assert all(message.is_serious() and f"LEASE_SECONDS is {lease:g}" in message.msg for message in messages)


@pytest.mark.parametrize(("keys", "kept", "found"), [(10, 10, []), (11, 10, ["jobs.E006"])])
def test_a_key_does_not_outlast_its_job(settings: Any, keys: float, kept: float, found: list[str]) -> None:
    settings.WEIGHBRIDGE_KEEP_IDEMPOTENCY_SECONDS, settings.WEIGHBRIDGE_KEEP_JOBS_SECONDS = keys, kept
    messages = checks.a_key_does_not_outlast_its_job()
    assert [message.id for message in messages] == found
    assert all("SECONDS is 11, but must be at most" in message.msg for message in messages)


def test_the_project_s_own_addresses_answer_with_problems() -> None:
    assert checks.errors_are_problems() == []


def test_addresses_of_a_team_s_own_without_our_handlers_are_told(settings: Any) -> None:
    settings.ROOT_URLCONF = "jobs.api.urls"  # which has none
    (told,) = checks.errors_are_problems()
    assert told.id == "jobs.W003"
    assert "handler400, handler404, handler500 of jobs.api.errors" in told.msg
