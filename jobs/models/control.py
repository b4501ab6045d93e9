"""What operators have changed while everything runs: of classes, of job types, of clients; and who changed what, when and why."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now


class ClassControl(models.Model):
    """One class's live overrides (empty: what the settings say), and whether it is paused or drains."""

    cost_class = models.CharField(max_length=63, primary_key=True)
    paused_at = models.DateTimeField(null=True, blank=True, help_text="Since then nothing of it starts.")
    draining_at = models.DateTimeField(null=True, blank=True, help_text="Since then it takes no more jobs.")
    max_waiting = models.PositiveIntegerField(null=True, blank=True)
    max_backlog_seconds = models.FloatField(null=True, blank=True)
    max_wait_seconds = models.FloatField(null=True, blank=True)
    timeout_seconds = models.FloatField(null=True, blank=True)

    class Meta:
        verbose_name = "cost class"
        verbose_name_plural = "cost classes"

    def __str__(self) -> str:
        return self.cost_class


class TypeControl(models.Model):
    """Whether jobs of one type are held back, in all classes."""

    type = models.CharField(max_length=100, primary_key=True)
    paused_at = models.DateTimeField(null=True, blank=True, help_text="Since then none of them starts.")
    refused_at = models.DateTimeField(null=True, blank=True, help_text="Since then no more are taken.")

    class Meta:
        verbose_name = "job type"
        indexes = [models.Index(fields=["type"], name="type_paused", condition=Q(paused_at__isnull=False))]

    def __str__(self) -> str:
        return self.type


class ControlChange(models.Model):
    """One number or switch that an operator changed. Only added."""

    changed_at = models.DateTimeField(db_default=Now())
    changed_by = models.CharField(max_length=200, help_text="By which way, and who.")
    kind = models.CharField(max_length=16, choices=[(kind, kind) for kind in ("class", "type", "client")])
    name = models.CharField(max_length=100)
    field = models.CharField(max_length=32)
    before = models.JSONField(null=True, help_text="Of a limit, empty: none was set here.")
    after = models.JSONField(null=True)
    why = models.CharField(max_length=200, blank=True)

    class Meta:
        indexes = [models.Index(fields=["kind", "name", "field", "-id"], name="control_change_latest")]

    def __str__(self) -> str:
        return f"{self.field} of {self.kind} {self.name}"
