"""probe.sleep and probe.spin: as long as asked, in the class asked for, and stopped when told."""

import math
import time
from unittest.mock import create_autospec

import pytest
from pydantic import ValidationError

from jobs import registry
from jobs.classes import declared
from workers import JobContext
from workers.catalog import probe_params
from workers.catalog.probe_params import ProbeParams
from workers.catalog.probe_sleep import sleep
from workers.catalog.probe_spin import spin

PROBES = [sleep, spin]


class Stopped(Exception):
    """Stands for whatever ctx.check() raises."""


def context(seconds):
    ctx = create_autospec(JobContext, instance=True)
    ctx.params = ProbeParams(seconds=seconds)
    return ctx


@pytest.mark.parametrize("seconds", [0, 0.01, 0.25])
def test_sleep_lasts_as_long_as_asked_and_says_so(seconds):
    started_at = time.monotonic()
    slept = sleep(context(seconds))["slept_seconds"]
    assert seconds <= slept <= time.monotonic() - started_at


def test_sleep_leaves_the_processor_alone():
    cpu_at_start = time.thread_time()
    sleep(context(0.5))
    assert time.thread_time() - cpu_at_start < 0.1


@pytest.mark.parametrize("seconds", [0, 0.005, 0.2])
def test_spin_burns_as_much_cpu_time_as_asked_and_says_so(seconds):
    cpu_at_start = time.thread_time()
    result = spin(context(seconds))
    assert seconds <= result["spun_seconds"] <= time.thread_time() - cpu_at_start
    assert result["elapsed_seconds"] >= seconds


def test_time_in_which_spin_does_not_run_does_not_count():
    ctx = context(0.05)
    ctx.check.side_effect = lambda: time.sleep(0.02)  # stands for a crowded machine
    cpu_at_start = time.thread_time()
    result = spin(ctx)
    assert time.thread_time() - cpu_at_start >= result["spun_seconds"] >= 0.05
    assert result["elapsed_seconds"] >= result["spun_seconds"] + 0.08


@pytest.mark.parametrize("probe", PROBES)
@pytest.mark.parametrize("seconds", [5.0, 1e308])
def test_what_check_raises_ends_a_probe(probe, seconds):
    ctx = context(seconds)
    ctx.check.side_effect = [None, None, Stopped]
    with pytest.raises(Stopped):
        probe(ctx)


@pytest.mark.parametrize("probe", PROBES)
def test_progress_rises_and_stays_below_one(probe):
    ctx = context(0.35)
    probe(ctx)
    fractions = [call.args[0] for call in ctx.progress.call_args_list]
    assert fractions
    assert fractions == sorted(fractions)
    assert 0 < fractions[0] <= fractions[-1] < 1


@pytest.mark.parametrize("probe", PROBES)
def test_a_short_probe_reports_no_progress(probe):
    """So a load of short probes measures the queue, not progress writes."""
    ctx = context(0.001)
    probe(ctx)
    ctx.progress.assert_not_called()


@pytest.mark.parametrize("name", ["probe.sleep", "probe.spin"])
def test_a_probe_runs_in_any_declared_class_with_that_classs_timeout(name):
    job_type = registry.get(name)
    assert job_type is not None
    assert {cost_class: job_type.weigh(ProbeParams(seconds=1, cost_class=cost_class)) for cost_class in declared()} == {
        cost_class: cost_class for cost_class in declared()
    }
    assert job_type.timeout_seconds is None


def test_the_class_is_light_unless_told():
    assert ProbeParams(seconds=1).cost_class == "light"


def test_a_class_that_a_team_declares_is_known_and_a_missing_light_is_not(monkeypatch):
    monkeypatch.setattr(probe_params, "declared", lambda: {"gpu": object()})
    assert ProbeParams(seconds=1, cost_class="gpu").cost_class == "gpu"
    with pytest.raises(ValidationError, match="There is no cost class 'light'; there are gpu\\."):
        ProbeParams(seconds=1)


@pytest.mark.parametrize("cost_class", ["huge", "", "Light", "light\0", "x" * 1000])
def test_an_unknown_class_is_refused_with_the_names_there_are(cost_class):
    with pytest.raises(ValidationError) as refused:
        ProbeParams(seconds=1, cost_class=cost_class)
    (error,) = refused.value.errors()
    assert error["loc"] == ("cost_class",)
    assert "There is no cost class" in error["msg"]
    assert error["msg"].endswith(f"; there are {', '.join(sorted(declared()))}.")
    assert len(error["msg"]) < 300


@pytest.mark.parametrize("seconds", [0, 0.0, 1, 0.5, 86_400, 1e308])
def test_takes_every_finite_duration_from_zero(seconds):
    assert ProbeParams(seconds=seconds).seconds == seconds


@pytest.mark.parametrize("seconds", [-0.001, math.nan, math.inf, -math.inf, "1", True, None])
def test_refuses_other_durations(seconds):
    with pytest.raises(ValidationError) as refused:
        ProbeParams(seconds=seconds)
    assert [error["loc"] for error in refused.value.errors()] == [("seconds",)]


@pytest.mark.parametrize("given", [{}, {"seconds": 1, "minutes": 1}])
def test_refuses_a_missing_and_an_unknown_field(given):
    with pytest.raises(ValidationError):
        ProbeParams(**given)
