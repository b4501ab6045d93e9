"""Uploads, and what jobs left: how many, how large, whose. What they hold is their client's alone."""

from django.contrib import admin

from jobs.admin.readonly import ReadOnlyAdmin
from jobs.models import Artifact, Upload


@admin.register(Upload)
class UploadAdmin(ReadOnlyAdmin):
    list_display = ("id", "client", "size_bytes", "created_at", "stored_at", "deleted_at")
    list_filter = ("client",)
    list_select_related = ("client",)
    ordering = ("-created_at",)
    exclude = ("key",)


@admin.register(Artifact)
class ArtifactAdmin(ReadOnlyAdmin):
    list_display = ("name", "job", "attempt", "content_type", "size_bytes", "created_at", "stored_at")
    list_select_related = ("job",)
    ordering = ("-created_at",)
