"""What decides about the order of claims: the clocks of fairness, what jobs cost, and limits."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now

from jobs.models.clients import ApiClient


class FairClock(models.Model):
    """The virtual time of one class (P11): seconds of work that each unit of weight has had. Written under the class's lock only."""

    cost_class = models.CharField(max_length=63, primary_key=True)
    virtual_time = models.FloatField(db_default=0.0, help_text="Never falls.")
    highest_rank = models.FloatField(db_default=0.0, help_text="That was given.")
    highest_tag = models.FloatField(db_default=0.0, help_text="The latest finish.")

    def __str__(self) -> str:
        return self.cost_class


class FairShare(models.Model):
    """Where one client stands in the order of a class (P11), and the clock of its own flows (P11a)."""

    pk = models.CompositePrimaryKey("cost_class", "client")
    cost_class = models.CharField(max_length=63)
    client = models.ForeignKey(ApiClient, on_delete=models.CASCADE, related_name="shares", db_index=False)
    finish_tag = models.FloatField(
        db_default=0.0, help_text="Of its latest job; its next one starts there at the earliest."
    )
    flow_time = models.FloatField(db_default=0.0)
    highest_flow_rank = models.FloatField(db_default=0.0)
    highest_flow_tag = models.FloatField(db_default=0.0)
    used_at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [models.Index(fields=["used_at"], name="share_prune")]

    def __str__(self) -> str:
        return f"{self.client} in {self.cost_class}"


class FlowShare(models.Model):
    """The same of one flow among its client's (P11a)."""

    pk = models.CompositePrimaryKey("cost_class", "client", "flow")
    cost_class = models.CharField(max_length=63)
    client = models.ForeignKey(ApiClient, on_delete=models.CASCADE, related_name="flow_shares", db_index=False)
    flow = models.CharField(max_length=64)
    finish_tag = models.FloatField(db_default=0.0)
    used_at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [models.Index(fields=["used_at"], name="flow_share_prune")]

    def __str__(self) -> str:
        return f"{self.flow or '(none)'} of {self.client_id} in {self.cost_class}"


class FairDebt(models.Model):
    """What a requeue will cost once more, for its client's next admission to pay, and its flow's (P11). Only added and removed, so nobody waits for a row."""

    cost_class = models.CharField(max_length=63)
    client = models.ForeignKey(ApiClient, on_delete=models.CASCADE, related_name="debts", db_index=False)
    flow = models.CharField(max_length=64, null=True, help_text="Empty: the client's own debt in the class.")
    seconds = models.FloatField()
    owed_at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [
            models.Index(fields=["cost_class", "client"], name="debt_paid"),
            models.Index(fields=["owed_at"], name="debt_prune"),
        ]

    def __str__(self) -> str:
        return f"{self.seconds:g} s of {self.client_id} in {self.cost_class}"


class RunTimes(models.Model):
    """What jobs of one type took in one class, the newest last: of it their cost is expected (P5). Durations are seconds."""

    pk = models.CompositePrimaryKey("cost_class", "type")
    cost_class = models.CharField(max_length=63)
    type = models.CharField(max_length=100)
    newest = ArrayField(models.FloatField(), default=list)
    runs = models.BigIntegerField(db_default=0, help_text="All that were seen.")
    expected_seconds = models.FloatField(null=True, help_text="Empty: too few runs to say.")
    seen_until = models.DateTimeField(help_text="Jobs that ended before are in it.")

    class Meta:
        verbose_name_plural = "run times"

    def __str__(self) -> str:
        return f"{self.type} in {self.cost_class}"


class LimitKey(models.Model):
    """How many jobs that name a key may run at once, on all workers together (P12). A key that no row is about is not limited."""

    pattern = models.CharField(
        max_length=200, primary_key=True, help_text="A key, or the beginning of many with a * at its end."
    )
    maximum = models.PositiveIntegerField(help_text="Jobs that run at once, of each key.")

    def __str__(self) -> str:
        return f"{self.pattern} ≤ {self.maximum}"
