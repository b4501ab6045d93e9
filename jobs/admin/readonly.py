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

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest) -> bool:
        """Only what the page itself filters by: any other lookup would tell, guess by guess, what the page does not show."""
        filters = {name for name in self.get_list_filter(request) if isinstance(name, str)}
        return lookup.split("__")[0] in filters and super().lookup_allowed(lookup, value, request)
