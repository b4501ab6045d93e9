"""Worker nodes and sweeps: who is alive."""

from django.contrib import admin

from jobs.admin.readonly import ReadOnlyAdmin
from jobs.models import Sweep, WorkerNode


@admin.register(WorkerNode)
class WorkerNodeAdmin(ReadOnlyAdmin):
    list_display = ("cost_class", "hostname", "pid", "processes", "started_at", "seen_at", "stopping_at", "stopped_at")
    list_filter = ("cost_class", "hostname")
    ordering = ("-seen_at",)


@admin.register(Sweep)
class SweepAdmin(ReadOnlyAdmin):
    list_display = ("name", "last_run_at", "steady_since")
    ordering = ("name",)
