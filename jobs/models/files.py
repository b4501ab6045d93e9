"""What lies in the storage of files: jobs/files."""

from django.db import models
from django.db.models import Func, Q
from django.db.models.functions import Now

from jobs.models.clients import ApiClient
from jobs.models.jobs import Job


class Upload(models.Model):
    """A file that a caller sent, for params to name. Its row is there before its file, and goes after it."""

    id = models.UUIDField(primary_key=True, db_default=Func(function="uuid7_v1"))
    client = models.ForeignKey(ApiClient, on_delete=models.PROTECT, related_name="uploads", db_index=False)
    size_bytes = models.BigIntegerField()
    sha256 = models.CharField(max_length=64)
    key = models.CharField(max_length=255, null=True, blank=True, help_text="The Idempotency-Key that it came under.")
    created_at = models.DateTimeField(db_default=Now())
    stored_at = models.DateTimeField(null=True, blank=True, help_text="Empty until its file is whole.")
    deleted_at = models.DateTimeField(null=True, blank=True, help_text="By its client: hidden, and removed later.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["client", "key"], name="upload_key_once", condition=Q(deleted_at=None))
        ]
        indexes = [
            models.Index(fields=["created_at", "id"], name="upload_by_age"),
            # How much a client has.
            models.Index(fields=["client"], name="upload_of_client"),
        ]

    def __str__(self) -> str:
        return f"upload {self.pk}"

    @property
    def file_name(self) -> str:
        """In the storage."""
        return f"uploads/{self.pk}"


class Artifact(models.Model):
    """A file that an attempt left. Seen once its job has succeeded by this very attempt; see jobs/files/artifacts.py.

    Protected, not cascaded: a row that went with its job would leave its file behind.
    """

    id = models.UUIDField(primary_key=True)
    job = models.ForeignKey(Job, on_delete=models.PROTECT, related_name="artifacts", db_index=False)
    attempt = models.IntegerField()
    name = models.CharField(max_length=100)
    content_type = models.CharField(max_length=100)
    size_bytes = models.BigIntegerField()
    sha256 = models.CharField(max_length=64)
    created_at = models.DateTimeField(db_default=Now())
    stored_at = models.DateTimeField(null=True, blank=True, help_text="Empty until its file is whole.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "attempt", "name"], name="artifact_name_once")]
        indexes = [models.Index(fields=["created_at", "id"], name="artifact_by_age")]

    def __str__(self) -> str:
        return f"{self.name} of {self.job_id}"

    @property
    def file_name(self) -> str:
        """In the storage."""
        return f"artifacts/{self.pk}"
