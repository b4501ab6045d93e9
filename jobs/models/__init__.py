"""What is true about jobs, by subject; imported from here.

clients     ApiClient, ApiKey
control     ClassControl, TypeControl, ControlChange: what operators have changed while everything runs
requests    IdempotencyKey, OutboxEntry: what was asked for, and what came of it
jobs        Job, Attempt, OnceResult
batches     Batch, BatchItem
files       Upload, Artifact
order       FairClock, FairDebt, FairShare, FlowShare, RunTimes, LimitKey: what decides whose turn it is
operations  WorkerNode, Sweep, ClassMinute
"""

from jobs.models.batches import Batch, BatchItem
from jobs.models.clients import ApiClient, ApiKey
from jobs.models.control import ClassControl, ControlChange, TypeControl
from jobs.models.files import Artifact, Upload
from jobs.models.jobs import Attempt, Job, OnceResult
from jobs.models.operations import ClassMinute, Sweep, WorkerNode
from jobs.models.order import FairClock, FairDebt, FairShare, FlowShare, LimitKey, RunTimes
from jobs.models.requests import IdempotencyKey, OutboxEntry

__all__ = [
    "ApiClient",
    "ApiKey",
    "Artifact",
    "Attempt",
    "Batch",
    "BatchItem",
    "ClassControl",
    "ClassMinute",
    "ControlChange",
    "FairClock",
    "FairDebt",
    "FairShare",
    "FlowShare",
    "IdempotencyKey",
    "Job",
    "LimitKey",
    "OnceResult",
    "OutboxEntry",
    "RunTimes",
    "Sweep",
    "TypeControl",
    "Upload",
    "WorkerNode",
]
