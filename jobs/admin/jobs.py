"""Jobs and their attempts: to look at, and to cancel one or many."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html

from jobs import lifecycle
from jobs.admin.readonly import ReadOnly, ReadOnlyAdmin
from jobs.models import Attempt, Job
from jobs.row_locks import PATIENCE_SECONDS, RowHeld, not_waiting
from jobs.states import State


class Attempts(ReadOnly, admin.TabularInline):  # type: ignore[type-arg]
    model = Attempt
    extra = 0
    fields = readonly_fields = (
        "number",
        "node",
        "pid",
        "started_at",
        "finished_at",
        "outcome",
        "error_code",
        "error_detail",
        "log",
        "wait_seconds",
        "run_seconds",
        "cpu_seconds",
        "peak_rss_bytes",
    )


@admin.register(Job)
class JobAdmin(ReadOnlyAdmin):
    list_display = (
        "short_id",
        "type",
        "state",
        "cancel_button",
        "cost_class",
        "accepted",
        "wait",
        "run",
        "why",
        "client",
    )
    list_filter = ("state", "cost_class", "type", "client")
    list_select_related = ("client",)
    list_per_page = 50
    search_fields = ("=id", "=type", "=request_id")
    search_help_text = "A whole job id, job type or request id"
    ordering = ("-accepted_at",)
    actions = ("cancel_selected",)
    inlines = (Attempts,)
    # Params and results may be private: they are read through the API, by their owner.
    exclude = ("params", "result")
    readonly_fields = ("wait", "late", "run", "why", "cancel_button")

    @admin.display(description="id", ordering="id")
    def short_id(self, job: Job) -> str:
        """The end of an id tells jobs apart; its beginning is the time."""
        return format_html('<span title="{0}" style="white-space: nowrap">…{1}</span>', job.pk, str(job.pk)[-12:])

    @admin.display(description="accepted", ordering="accepted_at")
    def accepted(self, job: Job) -> str:
        return job.accepted_at.strftime("%m-%d %H:%M:%S")

    @admin.display(description="wait s")
    def wait(self, job: Job) -> str:
        return "" if job.started_at is None else f"{(job.started_at - job.accepted_at).total_seconds():.1f}"

    @admin.display(description="start, s after its estimate")
    def late(self, job: Job) -> str:
        """Against what was told at its admission; below 0 it was sooner."""
        if job.started_at is None or job.estimated_start_at is None:
            return ""
        return f"{(job.started_at - job.estimated_start_at).total_seconds():.1f}"

    @admin.display(description="run s")
    def run(self, job: Job) -> str:
        return "" if job.run_seconds is None else f"{job.run_seconds:.1f}"

    @admin.display(description="why it ended")
    def why(self, job: Job) -> str:
        return job.error_code

    @admin.display(description="")
    def cancel_button(self, job: Job) -> str:
        """Posts the form that it stands in, the list's or the page's, to another address."""
        if State(job.state).terminal or job.cancel_requested_at is not None:
            return ""
        return format_html(
            '<button type="submit" class="button" formmethod="post" formnovalidate formaction="{}">Cancel</button>',
            reverse("admin:jobs_job_cancel", args=[job.pk]),
        )

    def get_urls(self) -> list[URLPattern]:
        cancel = self.admin_site.admin_view(self.cancel_one)
        return [path("<uuid:job_id>/cancel/", cancel, name="jobs_job_cancel"), *super().get_urls()]

    def cancel_one(self, request: HttpRequest, job_id: UUID) -> HttpResponse:
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if not self.has_cancel_permission(request):
            raise PermissionDenied
        if Job.objects.filter(pk=job_id).exists():
            self._cancel(request, [job_id])
        else:
            self.message_user(request, f"There is no job {job_id}.", messages.WARNING)
        return HttpResponseRedirect(reverse("admin:jobs_job_changelist"))

    @admin.action(description="Cancel the selected jobs", permissions=["cancel"])
    def cancel_selected(self, request: HttpRequest, chosen: QuerySet[Job]) -> None:
        self._cancel(request, chosen.values_list("pk", flat=True))

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("jobs.cancel_job")

    def _cancel(self, request: HttpRequest, job_ids: Iterable[UUID]) -> None:
        cancelled, too_late = 0, 0
        for job_id in job_ids:
            try:
                with not_waiting(PATIENCE_SECONDS):
                    state = lifecycle.cancel(job_id)
            except RowHeld:
                self.message_user(
                    request, f"Somebody else is changing job {job_id} just now; try again.", messages.WARNING
                )
                continue
            if state is None:
                too_late += 1
            else:
                cancelled += 1
                self.log_change(request, Job(pk=job_id), "Cancelled, or asked to end.")
        if cancelled:
            self.message_user(request, f"Cancelled, or asked to end: {cancelled}.", messages.SUCCESS)
        if too_late:
            self.message_user(request, f"Had already ended: {too_late}.", messages.WARNING)

    def get_actions(self, request: HttpRequest) -> Any:
        """Deleting rows is the prune sweep's work."""
        return {name: action for name, action in super().get_actions(request).items() if name != "delete_selected"}
