"""What was asked for: under a key, and in a transaction that is to be committed first."""

from django.db import models
from django.db.models import Func, Q
from django.db.models.functions import Now

from jobs.models.batches import Batch
from jobs.models.clients import ApiClient
from jobs.models.jobs import Job


class IdempotencyKey(models.Model):
    """What a client's key stands for: the request that was accepted under it, and the job or batch that came of it (P6, P39a)."""

    pk = models.CompositePrimaryKey("client", "key")
    client = models.ForeignKey(ApiClient, on_delete=models.CASCADE, db_index=False)
    key = models.CharField(max_length=255)
    fingerprint = models.CharField(max_length=64, help_text="SHA-256 of the request, without its deadline.")
    job = models.ForeignKey(Job, on_delete=models.CASCADE, null=True, blank=True)
    batch = models.ForeignKey(Batch, on_delete=models.CASCADE, null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="key_of_a_job_or_a_batch",
                condition=Q(job__isnull=False, batch=None) | Q(job=None, batch__isnull=False),
            ),
        ]
        indexes = [models.Index(fields=["created_at"], name="key_prune")]

    def __str__(self) -> str:
        return f"{self.key} of {self.client}"


class OutboxEntry(models.Model):
    """A job that a transaction of this installation asked for, to be admitted once that is committed. Durations are seconds."""

    class State(models.TextChoices):
        WAITING = "waiting"
        ADMITTED = "admitted"
        GIVEN_UP = "given_up"

    id = models.UUIDField(primary_key=True, db_default=Func(function="uuid7_v1"))
    client = models.ForeignKey(
        ApiClient, on_delete=models.PROTECT, null=True, blank=True, db_index=False, help_text="Empty: none was named."
    )
    type = models.CharField(max_length=100)
    cost_class = models.CharField(max_length=63, help_text="As it was weighed when it was written.")
    params = models.JSONField(default=dict, help_text="Until it is admitted; then the job has them.")
    labels = models.JSONField(default=dict)
    timeout_seconds = models.FloatField(null=True, blank=True, help_text="As it was asked for.")
    max_wait_seconds = models.FloatField(null=True, blank=True, help_text="As it was asked for.")
    deadline_at = models.DateTimeField(null=True, blank=True)
    priority = models.SmallIntegerField(db_default=0)
    flow = models.CharField(max_length=64, blank=True, db_default="")
    key = models.CharField(max_length=255, blank=True, default="")
    fingerprint = models.CharField(max_length=64, blank=True, default="")
    request_id = models.CharField(max_length=128, blank=True, default="")
    traceparent = models.CharField(max_length=55, blank=True, default="")

    state = models.CharField(max_length=8, choices=State.choices, db_default=State.WAITING)
    reason = models.CharField(
        max_length=32, blank=True, db_default="", help_text="Why it was not admitted, the last time."
    )
    tries = models.IntegerField(db_default=0)
    written_at = models.DateTimeField(db_default=Now())
    try_at = models.DateTimeField(db_default=Now())
    try_until = models.DateTimeField(help_text="Refused then or later, it is given up.")
    ended_at = models.DateTimeField(null=True, blank=True)
    job = models.ForeignKey(Job, on_delete=models.CASCADE, null=True, blank=True, related_name="outbox_entries")

    class Meta:
        verbose_name_plural = "outbox entries"
        constraints = [
            models.CheckConstraint(
                name="outbox_ended_at_means_ended",
                condition=Q(state="waiting", ended_at__isnull=True)
                | Q(state__in=["admitted", "given_up"], ended_at__isnull=False),
            ),
            models.CheckConstraint(
                name="outbox_admitted_means_job",
                condition=Q(state="admitted", job__isnull=False) | (~Q(state="admitted") & Q(job__isnull=True)),
            ),
        ]
        indexes = [
            models.Index(fields=["cost_class", "try_at", "id"], name="outbox_waiting", condition=Q(state="waiting")),
            models.Index(fields=["ended_at"], name="outbox_prune", condition=Q(state="given_up")),
        ]

    def __str__(self) -> str:
        return f"{self.type} {self.pk}"
