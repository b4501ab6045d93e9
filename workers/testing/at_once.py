"""What takes the place of the door in a test, and runs each job that is asked for before it answers."""

from dataclasses import dataclass, field
from datetime import UTC, datetime

from jobs.door.asking import AskedJob
from jobs.models import Job
from jobs.states import State
from jobs.testing.captured import Submitted
from workers.testing import Ran, run


@dataclass
class RunAtOnce(Submitted):
    """`ran`: the attempts, in the order in which they ended. `uploads`: what they find by ctx.open_upload."""

    ran: list[Ran] = field(default_factory=list)

    def become(self, asked: AskedJob) -> Job:
        """The job after its one attempt, with its result or error."""
        job = super().become(asked)
        job.started_at = datetime.now(UTC)
        ran = run(
            asked.type,
            asked.params,
            timeout=asked.timeout_seconds,
            deadline=asked.deadline_seconds,
            uploads=self.uploads,
        )
        self.ran.append(ran)
        job.attempt, job.failures = ran.attempt, ran.failures
        job.state, job.result = ran.state, ran.result
        job.error_code, job.error_message, job.error_details = ran.error_code, ran.error_message, ran.error_details
        if State(ran.state).terminal:
            job.finished_at = datetime.now(UTC)
        return job
