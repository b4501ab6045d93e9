"""GET /metrics: this machine's counters, and depth gauges read from the database at the moment of asking."""

import os
from collections.abc import Iterable, Iterator

from django.db.utils import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from jobs import classes, queries, telemetry
from jobs.api.errors import Problem
from jobs.api.requests import from_loopback, has_scope
from jobs.control import told
from jobs.keys import OPS_READ
from jobs.submit import outbox


def metrics(request: HttpRequest) -> HttpResponse:
    if not (from_loopback(request) or has_scope(request, OPS_READ)):
        return Problem(
            "forbidden", f"From elsewhere than loopback, a key with the scope {OPS_READ} is needed."
        ).response()
    return HttpResponse(_all(), content_type=CONTENT_TYPE_LATEST)


def _all() -> bytes:
    telemetry.show_from_the_start()
    depth = CollectorRegistry()
    depth.register(Depth())
    return generate_latest(_counters()) + generate_latest(depth)


def _counters() -> CollectorRegistry:
    folder = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
    if folder is None:
        return REGISTRY
    registry = CollectorRegistry()
    if not os.path.isdir(folder):
        return registry
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return registry


class Depth(Collector):
    """Absent while the database is away: no number is better than an old one."""

    def collect(self) -> Iterable[Metric]:
        try:
            return [*self._of_classes(), *self._of_the_outbox(), self._of_sweeps(), self._of_operators()]
        except (OperationalError, InterfaceError):
            return []

    def _of_classes(self) -> Iterator[Metric]:
        waiting = _gauge("jobs_waiting", "Queued jobs that hold a place.")
        running = _gauge("jobs_running", "Jobs that run.")
        capacity = _gauge("jobs_queue_capacity", "The most that may wait and run together.")
        slots = _gauge("jobs_slots", "Worker processes of live nodes.")
        oldest = _gauge("jobs_oldest_waiting_seconds", "Age of the job that has waited longest.")
        backlog = _gauge("jobs_backlog_seconds", "Expected work of what waits and runs, over all slots.")
        paused = _gauge("jobs_class_paused", "1 while an operator lets nothing of the class start.")
        draining = _gauge("jobs_class_draining", "1 while an operator lets the class take no more jobs.")
        for view in queries.class_views():
            label = [view.cost_class.name]
            waiting.add_metric(label, view.room.waiting)
            running.add_metric(label, view.room.running)
            capacity.add_metric(label, view.room.bound(view.cost_class.max_waiting))
            slots.add_metric(label, view.room.slots)
            backlog.add_metric(label, view.cost_class.backlog_of(view.room))
            paused.add_metric(label, view.paused)
            draining.add_metric(label, view.draining)
            oldest.add_metric(label, queries.oldest_waiting_seconds(view.cost_class.name))
        yield from (waiting, running, capacity, slots, oldest, backlog, paused, draining)

    def _of_the_outbox(self) -> Iterator[Metric]:
        waiting = _gauge("jobs_outbox_waiting", "Outbox entries that have not become a job yet.")
        oldest = _gauge("jobs_outbox_oldest_seconds", "Age of the outbox entry that has waited longest.")
        found = {name: (count, age) for name, count, age in outbox.depth()}
        for name in {**classes.declared(), **found}:
            count, age = found.get(name, (0, 0.0))
            waiting.add_metric([name], count)
            oldest.add_metric([name], age)
        yield from (waiting, oldest)

    def _of_operators(self) -> Metric:
        held = GaugeMetricFamily(
            "jobs_held_back", "Job types and clients that an operator holds back now.", labels=["kind", "how"]
        )
        for (kind, how), count in told.held_back().items():
            held.add_metric([kind, how], count)
        return held

    def _of_sweeps(self) -> Metric:
        ages = GaugeMetricFamily("sweep_last_run_seconds", "Seconds since a sweep last ran.", labels=["sweep"])
        for name, age in queries.sweep_ages().items():
            if age is not None:
                ages.add_metric([name], age)
        return ages


def _gauge(name: str, text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, labels=["cost_class"])
