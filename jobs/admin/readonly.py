"""Pages to look at: what they show is not changed there."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest


class ReadOnly:
    """Mixed into a ModelAdmin or an inline."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class ReadOnlyAdmin(ReadOnly, admin.ModelAdmin):  # type: ignore[type-arg]
    show_full_result_count = False  # a count of millions for a number that nobody needs
