"""Many jobs that are submitted, waited for and cancelled as one, up to one deadline, with whatever was done by then.

`admission.py` lets their jobs in, all or each by itself; `sealing.py` closes a batch, once, when all of its jobs have ended, at its deadline or at
its cancel; `reading.py` says what became of each item. What a job brought stands in the job alone: a batch holds which of its jobs had not
ended when it was sealed, and the others never change (docs/decisions/0011-batches.md).
"""

from jobs.batches.admission import BatchAdmitted, BatchRejected, BatchReplayed, BatchSubmission, submit
from jobs.batches.reading import ItemOutcome, Seen, as_it_is
from jobs.batches.sealing import cancel, seal, seal_due, sealed, withdraw

__all__ = [
    "BatchAdmitted",
    "BatchRejected",
    "BatchReplayed",
    "BatchSubmission",
    "ItemOutcome",
    "Seen",
    "as_it_is",
    "cancel",
    "seal",
    "seal_due",
    "sealed",
    "submit",
    "withdraw",
]
