"""What is true about jobs. `Job.state` is written by `lifecycle/`, and at birth by `admission.py`, only."""

from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import Func, Q, Value
from django.db.models.functions import Now

from jobs.states import LIVE, TERMINAL, State


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

    class Meta:
        verbose_name = "API client"

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
            models.Index(fields=["cost_class", "sequence"], name="job_claim", condition=Q(state=State.QUEUED.value)),
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


class BatchItem(models.Model):
    """One item of a batch, by its caller's name. It goes with its batch, and its job stays for as long."""

    batch = models.ForeignKey(Batch, on_delete=models.CASCADE, related_name="items", db_index=False)
    position = models.IntegerField()
    name = models.CharField(max_length=64)
    cost_class = models.CharField(max_length=63)
    job = models.ForeignKey(Job, on_delete=models.PROTECT, null=True, blank=True, related_name="batch_items")
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


class Upload(models.Model):
    """A file that a caller sent, for params to name. Its row is there before its file, and goes after it."""

    id = models.UUIDField(primary_key=True, db_default=Func(function="uuid7_v1"))
    client = models.ForeignKey(ApiClient, on_delete=models.PROTECT, related_name="uploads", db_index=False)
    size_bytes = models.BigIntegerField()
    sha256 = models.CharField(max_length=64)
    key = models.CharField(max_length=255, null=True, blank=True, help_text="The Idempotency-Key that it came under.")
    created_at = models.DateTimeField(db_default=Now())
    stored_at = models.DateTimeField(null=True, blank=True, help_text="Empty until its file is whole.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["client", "key"], name="upload_key_once")]
        indexes = [models.Index(fields=["created_at", "id"], name="upload_by_age")]

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


class Sweep(models.Model):
    """When each sweep ran last, so that two beats share the work and a late one is seen (P33)."""

    name = models.CharField(max_length=32, primary_key=True)
    last_run_at = models.DateTimeField()
    steady_since = models.DateTimeField(null=True, blank=True, help_text="Runs without a gap since then (P17).")

    def __str__(self) -> str:
        return self.name
