"""What authors of job types import.

A handler is a function of one argument, its context, under the decorator `job`; the README has an example.
"""

from workers.context import JobContext
from workers.declare import job
from workers.failures import Fail, JobCancelled, JobTimeout, LeaseLost, RetryLater
from workers.retries import Retry

__all__ = ["Fail", "JobCancelled", "JobContext", "JobTimeout", "LeaseLost", "Retry", "RetryLater", "job"]
