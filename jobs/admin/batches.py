"""Batches and their items, to look at. What an item brought is private, as a job's result is: its owner reads it through the API."""

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html

from jobs.admin.readonly import ReadOnly, ReadOnlyAdmin
from jobs.models import Batch, BatchItem

# Of pages only: in the model it would ask for a migration that changes nothing.
Batch._meta.verbose_name_plural = "batches"


class Items(ReadOnly, admin.TabularInline):  # type: ignore[type-arg]
    model = BatchItem
    extra = 0
    ordering = ("position",)
    fields = readonly_fields = ("name", "cost_class", "link", "job_state", "refusal", "unfinished")

    def get_queryset(self, request: HttpRequest) -> "QuerySet[BatchItem]":
        return super().get_queryset(request).select_related("job").defer("job__params", "job__result")

    @admin.display(description="job")
    def link(self, item: BatchItem) -> str:
        if item.job_id is None:
            return ""
        return format_html('<a href="{}">{}</a>', reverse("admin:jobs_job_change", args=[item.job_id]), item.job_id)

    @admin.display(description="state")
    def job_state(self, item: BatchItem) -> str:
        return "" if item.job is None else item.job.state


@admin.register(Batch)
class BatchAdmin(ReadOnlyAdmin):
    list_display = ("id", "client", "state", "atomic", "accepted_at", "deadline_at", "sealed_at")
    list_filter = ("client", "atomic")
    list_select_related = ("client",)
    list_per_page = 50
    search_fields = ("=id", "=request_id")
    search_help_text = "A whole batch id or request id"
    ordering = ("-id",)  # which begins with the time, and has an index
    readonly_fields = ("state",)
    inlines = (Items,)
