"""Many jobs at once, and what each of them is called there."""

from django.db import models
from django.db.models import Func, Q
from django.db.models.functions import Now

from jobs.models.clients import ApiClient


class Batch(models.Model):
    """Many jobs with one deadline. Once sealed it never changes; what its items brought is read from their jobs, which have ended."""

    id = models.UUIDField(primary_key=True, db_default=Func(function="uuid7_v1"))
    client = models.ForeignKey(ApiClient, on_delete=models.PROTECT, related_name="batches")
    atomic = models.BooleanField(help_text="All were admitted, or none.")
    request_id = models.CharField(max_length=128, blank=True, default="")
    accepted_at = models.DateTimeField(db_default=Now())
    deadline_at = models.DateTimeField(
        null=True, blank=True, help_text="A cut-off: what has not ended then is cancelled (P9)."
    )
    cancel_requested_at = models.DateTimeField(null=True, blank=True)
    sealed_at = models.DateTimeField(null=True, blank=True)
    awaited_until = models.DateTimeField(null=True, blank=True, help_text="Somebody waits for its seal (P31).")

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="batch_cancelled_means_sealed", condition=Q(cancel_requested_at=None) | Q(sealed_at__isnull=False)
            ),
        ]
        indexes = [
            # Those that the sweep looks at, and those that prune removes.
            models.Index(fields=["deadline_at"], name="batch_open", condition=Q(sealed_at__isnull=True)),
            models.Index(fields=["sealed_at"], name="batch_prune", condition=Q(sealed_at__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"batch {self.pk}"

    @property
    def state(self) -> str:
        if self.sealed_at is None:
            return "running"
        return "finished" if self.cancel_requested_at is None else "cancelled"


class BatchItem(models.Model):
    """One item of a batch, by its caller's name. It goes with its batch, and its job stays for as long."""

    batch = models.ForeignKey(Batch, on_delete=models.CASCADE, related_name="items", db_index=False)
    position = models.IntegerField()
    name = models.CharField(max_length=64)
    cost_class = models.CharField(max_length=63)
    job = models.ForeignKey("Job", on_delete=models.PROTECT, null=True, blank=True, related_name="batch_items")
    refusal = models.CharField(max_length=32, blank=True, db_default="", help_text="Why there is no job.")
    unfinished = models.BooleanField(db_default=False, help_text="Its job had not ended when the batch was sealed.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["batch", "name"], name="item_named_once"),
            models.CheckConstraint(
                name="item_has_a_job_or_a_refusal",
                condition=Q(job__isnull=False, refusal="") | (Q(job=None) & ~Q(refusal="")),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} of {self.batch_id}"
