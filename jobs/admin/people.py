"""Clients and their keys. A key's secret cannot be shown: only its hash is kept."""

from django.contrib import admin

from jobs.admin.readonly import ReadOnlyAdmin
from jobs.models import ApiClient, ApiKey


@admin.register(ApiClient)
class ApiClientAdmin(ReadOnlyAdmin):
    list_display = ("name", "created_at")
    search_fields = ("name",)
    ordering = ("name",)


@admin.register(ApiKey)
class ApiKeyAdmin(ReadOnlyAdmin):
    list_display = ("hint", "client", "scopes", "created_at", "expires_at", "revoked_at")
    list_filter = ("client",)
    exclude = ("digest",)
    ordering = ("-created_at",)
