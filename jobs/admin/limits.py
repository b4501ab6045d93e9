"""How many jobs that name a limit key may run at once (P12). What a change frees starts at once."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from jobs import sweeps
from jobs.models import LimitKey


@admin.register(LimitKey)
class LimitKeyAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("pattern", "maximum")
    search_fields = ("pattern",)
    ordering = ("pattern",)

    def get_readonly_fields(self, request: HttpRequest, obj: LimitKey | None = None) -> tuple[str, ...]:
        """Under another pattern it would be another limit, beside the old one."""
        return () if obj is None else ("pattern",)

    def save_model(self, request: HttpRequest, obj: LimitKey, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        sweeps.after_a_limit()

    def delete_model(self, request: HttpRequest, obj: LimitKey) -> None:
        super().delete_model(request, obj)
        sweeps.after_a_limit()

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[LimitKey]) -> None:
        super().delete_queryset(request, queryset)
        sweeps.after_a_limit()
