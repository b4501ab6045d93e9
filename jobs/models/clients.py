"""Who calls."""

from django.contrib.postgres.fields import ArrayField
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now


class ApiClient(models.Model):
    """A caller. Jobs belong to a client, never to one of its keys."""

    name = models.CharField(max_length=100, unique=True)
    created_at = models.DateTimeField(db_default=Now())
    submits_per_minute = models.PositiveIntegerField(
        null=True, blank=True, validators=[MinValueValidator(1)], help_text="Empty: as many as it likes."
    )
    max_jobs = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="Waiting and running at once. Empty: no limit.",
    )

    max_running = models.PositiveIntegerField(
        null=True, blank=True, help_text="Running at once, in all classes. Empty: no limit."
    )
    weight = models.FloatField(
        db_default=1.0,
        default=1.0,
        blank=True,
        validators=[MinValueValidator(0.01), MaxValueValidator(100)],
        help_text="Its share of a class beside the others' (P11).",
    )

    suspended_at = models.DateTimeField(
        null=True, blank=True, help_text="Since then it may submit nothing, and nothing of it starts."
    )

    class Meta:
        verbose_name = "API client"
        constraints = [models.CheckConstraint(name="client_weighs_something", condition=Q(weight__gt=0))]
        indexes = [models.Index(fields=["id"], name="client_suspended", condition=Q(suspended_at__isnull=False))]

    def __str__(self) -> str:
        return self.name


class ApiKey(models.Model):
    """A bearer key, kept as its SHA-256 only (P39)."""

    client = models.ForeignKey(ApiClient, on_delete=models.CASCADE, related_name="keys")
    digest = models.CharField(max_length=64, unique=True)
    hint = models.CharField(max_length=12, help_text="The first characters, to tell keys apart.")
    scopes = ArrayField(models.CharField(max_length=32), default=list)
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True, help_text="To the minute.")

    class Meta:
        verbose_name = "API key"

    def __str__(self) -> str:
        return f"{self.hint}… of {self.client}"
