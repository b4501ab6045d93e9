"""What authors of job types import.

A handler is a function of one argument, its context, under the decorator `job`; the README has an example.

Where the rest is, by who runs it:

    authors' code   declare, context, failures, retries; context's tools: http (with fanout, bulkheads, deadlines), once,
                    progress, artifacts, uploads; testing/ and by_hand run a handler without a worker
    a pool child    pool and children (after the fork), equipment (for its life), then for each wake-up tasks → runner →
                    outcomes → settling; beside the handler limits, handler_database, logbook, usage, descendants
    the keeper      keeper (start, beat, stop), custody (its children's attempts), clockwork (sweeps, due jobs),
                    consumption (is Celery at work?), strays, kernel; Celery is its fork (celery_fork, celery_process)
    both            slots (who runs which attempt, in shared memory), budget (retries per node)
    before a worker sizing (memory and cores), planning/ (what a class needs for its load), simulating/ (what limits would do)
    catalog/        one file per shipped job type
"""

from jobs.files.upload_ids import UploadId
from workers.context import JobContext
from workers.declare import job
from workers.failures import Fail, JobCancelled, JobTimeout, LeaseLost, RetryLater
from workers.retries import Retry

__all__ = ["Fail", "JobCancelled", "JobContext", "JobTimeout", "LeaseLost", "Retry", "RetryLater", "UploadId", "job"]
