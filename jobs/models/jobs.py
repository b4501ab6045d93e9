"""The durable unit of work, and its attempts. `Job.state` is written by `lifecycle/`, and at birth by `admission.py`, only."""

from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Func, Q, Value
from django.db.models.functions import Now

from jobs.models.batches import Batch
from jobs.models.clients import ApiClient
from jobs.models.operations import WorkerNode
from jobs.states import LIVE, TERMINAL, State


class Job(models.Model):
    """The durable unit of work. Instants are the database's; durations are seconds."""

    id = models.UUIDField(primary_key=True, db_default=Func(function="uuid7_v1"))
    sequence = models.BigIntegerField(
        unique=True,
        db_default=Func(Value("jobs_admission_sequence"), function="nextval"),
        help_text="The order of admission.",
    )
    client = models.ForeignKey(ApiClient, on_delete=models.PROTECT, related_name="jobs", db_index=False)
    batch = models.ForeignKey(
        Batch, on_delete=models.SET_NULL, null=True, blank=True, related_name="jobs", db_index=False
    )
    type = models.CharField(max_length=100)
    cost_class = models.CharField(max_length=63)
    params = models.JSONField(default=dict)
    labels = models.JSONField(default=dict)
    request_id = models.CharField(max_length=128, blank=True, default="")
    traceparent = models.CharField(max_length=55, blank=True, db_default="", help_text="Of the request (W3C).")

    state = models.CharField(max_length=9, db_default=State.QUEUED.value, choices=[(s.value, s.value) for s in State])
    admitted_bound = models.IntegerField(help_text="queued + running may not exceed this at its admission (P3).")
    accepted_at = models.DateTimeField(db_default=Now())
    available_at = models.DateTimeField(db_default=Now())
    start_by = models.DateTimeField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True, help_text="Its first start.")
    finished_at = models.DateTimeField(null=True, blank=True)
    deadline_at = models.DateTimeField(null=True, blank=True)
    cancel_requested_at = models.DateTimeField(null=True, blank=True)
    timeout_seconds = models.FloatField()
    awaited_until = models.DateTimeField(null=True, blank=True, help_text="Somebody waits for its end (P31).")

    priority = models.SmallIntegerField(db_default=0, help_text="Among its client's own jobs (P11a).")
    flow = models.CharField(max_length=64, blank=True, db_default="", help_text="Whose it is to its client (P11a).")
    expected_seconds = models.FloatField(
        null=True, blank=True, help_text="Of work, all attempts; empty: not known (P5)."
    )
    cost_seconds = models.FloatField(
        db_default=1.0, help_text="What it counts in the order: expected, or its class's mean."
    )
    limit_keys = ArrayField(
        models.CharField(max_length=200),
        db_default=Value("{}", output_field=models.TextField()),
        default=list,
        help_text="Of which only so many may run at once (P12).",
    )
    estimated_start_at = models.DateTimeField(null=True, blank=True, help_text="As it was told at its admission.")
    rank = models.FloatField(db_default=0.0, help_text="The order of claims (P11).")
    turn = models.BigIntegerField(
        db_default=Func(Value("jobs_admission_sequence"), function="nextval"),
        help_text="Of equal ranks the lower first.",
    )
    flow_rank = models.FloatField(db_default=0.0, help_text="The same among its client's flows.")
    own_order = models.FloatField(
        db_default=0.0, help_text="The order inside its flow: epoch seconds, less its priority."
    )

    attempt = models.IntegerField(db_default=0, help_text="Starts so far; the fencing token of the one that runs.")
    failures = models.IntegerField(db_default=0)
    max_attempts = models.IntegerField(db_default=1)
    lost = models.IntegerField(db_default=0, help_text="Attempts that ended with their child or node.")
    max_deliveries = models.IntegerField(db_default=3, help_text="Lost attempts after which it is poison (P26).")
    node = models.ForeignKey(
        WorkerNode, on_delete=models.SET_NULL, null=True, blank=True, related_name="jobs", db_index=False
    )
    pid = models.IntegerField(null=True, blank=True)
    process_started = models.BigIntegerField(null=True, blank=True, help_text="Kernel ticks; tells a reused pid apart.")
    lease_until = models.DateTimeField(null=True, blank=True)
    hard_deadline = models.DateTimeField(null=True, blank=True)

    progress_fraction = models.FloatField(null=True, blank=True)
    progress_note = models.CharField(max_length=200, blank=True, db_default="")
    result = models.JSONField(null=True, blank=True)
    result_expired = models.BooleanField(db_default=False)
    error_code = models.CharField(max_length=64, blank=True, db_default="")
    error_message = models.TextField(blank=True, db_default="")
    error_details = models.JSONField(null=True, blank=True)
    error_retryable = models.BooleanField(db_default=False)
    stopped_by = models.CharField(max_length=16, blank=True, db_default="")
    run_seconds = models.FloatField(null=True, blank=True, help_text="Inside attempts, all of them.")
    cpu_seconds = models.FloatField(null=True, blank=True)
    peak_rss_bytes = models.BigIntegerField(null=True, blank=True)

    class Meta:
        permissions = [("cancel_job", "Can cancel a job")]
        constraints = [
            models.CheckConstraint(name="job_state_known", condition=Q(state__in=[s.value for s in State])),
            models.CheckConstraint(
                name="job_finished_at_means_terminal",
                condition=Q(state__in=sorted(TERMINAL), finished_at__isnull=False)
                | Q(state__in=sorted(LIVE), finished_at__isnull=True),
            ),
            models.CheckConstraint(
                name="job_lease_means_running",
                condition=Q(state=State.RUNNING.value, lease_until__isnull=False, hard_deadline__isnull=False)
                | (~Q(state=State.RUNNING.value) & Q(lease_until__isnull=True, hard_deadline__isnull=True)),
            ),
            models.CheckConstraint(
                name="job_started_means_attempt", condition=Q(attempt=0) | Q(started_at__isnull=False)
            ),
        ]
        indexes = [
            # The claim: the first waiting job of a class.
            models.Index(
                fields=["cost_class", "rank", "turn"], name="job_claim", condition=Q(state=State.QUEUED.value)
            ),
            # Whether a class has jobs that a limit may hold, and what runs under limits.
            models.Index(
                fields=["cost_class", "state"],
                name="job_limited",
                condition=Q(state__in=sorted(LIVE)) & ~Q(limit_keys=[]),
            ),
            # A client's turn: which of its flows, and which job of that one.
            models.Index(
                fields=["cost_class", "client", "flow_rank", "sequence"],
                name="job_flow_turn",
                condition=Q(state=State.QUEUED.value),
            ),
            models.Index(
                fields=["cost_class", "client", "flow", "own_order", "sequence"],
                name="job_own_turn",
                condition=Q(state=State.QUEUED.value),
            ),
            # The room of a class, and its live depth figures.
            models.Index(
                fields=["cost_class", "state", "start_by"], name="job_live", condition=Q(state__in=sorted(LIVE))
            ),
            models.Index(
                fields=["start_by"], name="job_expire", condition=Q(state=State.QUEUED.value, start_by__isnull=False)
            ),
            models.Index(fields=["node"], name="job_leases", condition=Q(state=State.RUNNING.value)),
            # Drain of a class, and what prune removes.
            models.Index(
                fields=["cost_class", "finished_at"], name="job_drain", condition=Q(finished_at__isnull=False)
            ),
            models.Index(fields=["finished_at"], name="job_prune", condition=Q(finished_at__isnull=False)),
            models.Index(fields=["-accepted_at"], name="job_newest"),
            # A client's jobs in the order in which they ended.
            models.Index(
                fields=["client", "finished_at", "sequence"],
                name="job_changes",
                condition=Q(finished_at__isnull=False),
            ),
            # A batch's own jobs, to cancel them.
            models.Index(fields=["batch"], name="job_batch", condition=Q(batch__isnull=False)),
            # A client's own jobs, newest first.
            models.Index(fields=["client", "-sequence"], name="job_list"),
        ]

    def __str__(self) -> str:
        return f"{self.type} {self.pk}"

    @property
    def error(self) -> dict[str, Any] | None:
        if not self.error_code:
            return None
        return {
            "code": self.error_code,
            "message": self.error_message,
            "retryable": self.error_retryable,
            "stopped_by": self.stopped_by or None,
            "details": self.error_details,
        }


class Attempt(models.Model):
    """One start of a job. Opened by the claim, closed by whoever settles it."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="attempts")
    number = models.IntegerField()
    node = models.ForeignKey(WorkerNode, on_delete=models.SET_NULL, null=True, blank=True)
    pid = models.IntegerField()
    process_started = models.BigIntegerField()
    started_at = models.DateTimeField(db_default=Now())
    finished_at = models.DateTimeField(null=True, blank=True)
    outcome = models.CharField(max_length=16, blank=True, db_default="")
    error_code = models.CharField(max_length=64, blank=True, db_default="")
    error_detail = models.TextField(blank=True, db_default="", help_text="For operators: exception text and traceback.")
    log = models.TextField(blank=True, db_default="", help_text="The last 64 KiB of what the handler logged.")
    wait_seconds = models.FloatField(null=True, blank=True, help_text="From when it could start to this start.")
    run_seconds = models.FloatField(null=True, blank=True)
    cpu_seconds = models.FloatField(null=True, blank=True)
    peak_rss_bytes = models.BigIntegerField(null=True, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint("job", "number", name="attempt_number_once")]

    def __str__(self) -> str:
        return f"attempt {self.number} of {self.job_id}"


class OnceResult(models.Model):
    """What a handler did under a key that it does once per job (P28). Goes with its job."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="once_results", db_index=False)
    key = models.CharField(max_length=200)
    result = models.JSONField(null=True, help_text="What its function returned; NULL where the key alone was taken.")
    stored_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "key"], name="once_per_job")]

    def __str__(self) -> str:
        return f"{self.key} of {self.job_id}"
