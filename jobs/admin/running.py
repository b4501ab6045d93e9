"""Worker nodes and sweeps: who is alive; and what callers were answered, by the minute."""

from django.contrib import admin

from jobs.admin.readonly import ReadOnlyAdmin
from jobs.models import ClassMinute, Sweep, WorkerNode


@admin.register(WorkerNode)
class WorkerNodeAdmin(ReadOnlyAdmin):
    list_display = ("cost_class", "hostname", "pid", "processes", "started_at", "seen_at", "stopping_at", "stopped_at")
    list_filter = ("cost_class", "hostname")
    ordering = ("-seen_at",)


@admin.register(Sweep)
class SweepAdmin(ReadOnlyAdmin):
    list_display = ("name", "last_run_at", "steady_since")
    ordering = ("name",)


@admin.register(ClassMinute)
class ClassMinuteAdmin(ReadOnlyAdmin):
    list_display = ("minute", "cost_class", "admitted", "refused_for", "came_back")
    list_filter = ("cost_class",)
    list_per_page = 60
    ordering = ("-minute", "cost_class")

    @admin.display(description="refused")
    def refused_for(self, minute: ClassMinute) -> str:
        return ", ".join(f"{reason} {count}" for reason, count in sorted(minute.refused.items()))

    @admin.display(description="admitted of those that came back when told to")
    def came_back(self, minute: ClassMinute) -> str:
        return f"{minute.returned_admitted} of {minute.returned}" if minute.returned else ""
