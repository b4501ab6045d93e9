"""The outbox: what a transaction asked for and is no job yet, what became one, and what was given up."""

from django.contrib import admin
from django.utils.html import format_html

from jobs.admin.readonly import ReadOnlyAdmin
from jobs.models import OutboxEntry


@admin.register(OutboxEntry)
class OutboxEntryAdmin(ReadOnlyAdmin):
    list_display = ("short_id", "type", "state", "reason", "tries", "cost_class", "written_at", "try_until", "client")
    list_filter = ("state", "cost_class", "client")
    list_select_related = ("client",)
    list_per_page = 50
    search_fields = ("=id", "=type", "=request_id")
    search_help_text = "A whole entry id, job type or request id"
    ordering = ("-written_at",)
    # Params may be private; a key's fingerprint says nothing to anybody.
    exclude = ("params", "fingerprint")

    @admin.display(description="id", ordering="id")
    def short_id(self, entry: OutboxEntry) -> str:
        """The end of an id tells entries apart; its beginning is the time."""
        return format_html('<span title="{0}" style="white-space: nowrap">…{1}</span>', entry.pk, str(entry.pk)[-12:])
