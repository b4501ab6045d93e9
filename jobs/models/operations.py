"""What runs the jobs, what tidies after them, and what the door answered."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now


class WorkerNode(models.Model):
    """One boot of one keeper: its slots count while it beats (P4)."""

    id = models.UUIDField(primary_key=True)
    hostname = models.CharField(max_length=255)
    pid = models.IntegerField()
    cost_class = models.CharField(max_length=63)
    processes = models.IntegerField()
    types = ArrayField(models.CharField(max_length=100), help_text="The job types this node can run.")
    started_at = models.DateTimeField(db_default=Now())
    seen_at = models.DateTimeField(db_default=Now())
    stopping_at = models.DateTimeField(null=True, blank=True)
    stopped_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [models.Index(fields=["cost_class"], name="node_live", condition=Q(stopped_at__isnull=True))]

    def __str__(self) -> str:
        return f"{self.cost_class} on {self.hostname} ({self.pid})"


class Sweep(models.Model):
    """When each sweep ran last, so that two beats share the work and a late one is seen (P33)."""

    name = models.CharField(max_length=32, primary_key=True)
    last_run_at = models.DateTimeField()
    steady_since = models.DateTimeField(null=True, blank=True, help_text="Runs without a gap since then (P17).")

    def __str__(self) -> str:
        return self.name


class ClassMinute(models.Model):
    """What callers of one class were answered in one minute, by all web processes together; written a few seconds late."""

    cost_class = models.CharField(max_length=63)
    minute = models.DateTimeField(help_text="Its beginning.")
    admitted = models.IntegerField(db_default=0, help_text="Jobs.")
    refused = models.JSONField(default=dict, help_text="Jobs, by the reason.")
    returned = models.IntegerField(db_default=0, help_text="Callers that came back when they had been told to.")
    returned_admitted = models.IntegerField(db_default=0, help_text="Of them, those that were then admitted.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["minute", "cost_class"], name="one_row_a_minute")]

    def __str__(self) -> str:
        return f"{self.cost_class} at {self.minute:%Y-%m-%d %H:%M}"
