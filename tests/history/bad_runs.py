"""Bad histories of starts and bodies, at least one per kind of anomaly. Each has that anomaly and no other."""

from tests.history.bad_stories import shows
from tests.history.hand_made import EPOCH, Story
from tests.history.verdict import Kind


@shows(Kind.UNRECORDED_START)
def a_body_without_an_attempt(story: Story) -> None:
    job = story.accepted()
    story.claimed(job)
    story.finish(job, "failed", "handler_error")
    story.began(job, pid=9, attempt=2)


@shows(Kind.MISCOUNTED_STARTS)
def an_attempt_is_missing(story: Story) -> None:
    job = story.accepted()
    story.change(job, attempt=1)
    story.finish(job, "failed", "handler_error")


@shows(Kind.MISCOUNTED_STARTS)
def an_attempt_stays_open(story: Story) -> None:
    job = story.accepted()
    story.claimed(job)
    story.change(job, state="failed", finished_at=EPOCH + story.now)


@shows(Kind.RAN_TWICE)
def one_attempt_runs_twice(story: Story) -> None:
    job = story.ran(story.accepted())
    story.began(job, attempt=1)


@shows(Kind.RAN_AGAIN)
def a_finished_job_is_run_again_after_a_release(story: Story) -> None:
    job = story.accepted()
    story.claimed(job)
    story.began(job)
    story.ended(job)
    story.requeue(job, code="")
    story.ran(job)


@shows(Kind.RAN_AGAIN)
def a_finished_job_runs_again_long_after_a_pause(story: Story) -> None:
    story.struck("pause", 7, lasting=4.0)
    story.now += 60.0
    a_finished_job_is_run_again_after_a_release(story)


@shows(Kind.RAN_AGAIN)
def a_finished_job_runs_again_because_its_worker_was_told_to_stop(story: Story) -> None:
    job = story.accepted()
    story.claimed(job)
    story.began(job)
    story.ended(job)
    story.struck("term", 7)
    story.requeue(job, code="released")
    story.ran(job, pid=8)


@shows(Kind.RAN_AGAIN)
def a_finished_job_runs_again_because_its_process_was_killed_much_later(story: Story) -> None:
    job = story.accepted()
    story.claimed(job)
    story.began(job)
    story.ended(job)
    story.now += 10.0
    story.struck("kill", 7)
    story.requeue(job)
    story.ran(job, pid=8)


@shows(Kind.SUCCESS_WITHOUT_BODY)
def a_success_that_nothing_returned(story: Story) -> None:
    job = story.accepted()
    story.claimed(job)
    story.began(job)
    story.ended(job, how="RuntimeError")
    story.finish(job, "succeeded")


@shows(Kind.TWO_LEASES)
def two_attempts_hold_the_job_at_once(story: Story) -> None:
    job = story.accepted()
    story.claimed(job)
    story.claimed(job)
    story.finish(job, "failed", "handler_error")


@shows(Kind.OVERLAP)
def two_bodies_side_by_side(story: Story) -> None:
    _side_by_side(story)


@shows(Kind.OVERLAP)
def side_by_side_after_a_pause_that_was_too_short(story: Story) -> None:
    story.struck("pause", 7, lasting=1.0)
    _side_by_side(story)


@shows(Kind.OVERLAP)
def side_by_side_for_longer_than_a_beat_after_the_pause(story: Story) -> None:
    story.struck("pause", 7, lasting=3.0)
    _side_by_side(story, together_seconds=5.0)


@shows(Kind.OVERLAP)
def a_killed_body_was_still_alive_when_the_next_began(story: Story) -> None:
    """The first has no end, but held its lock."""
    job = story.accepted()
    story.claimed(job, pid=7)
    story.began(job, pid=7)
    story.requeue(job, code="")
    story.claimed(job, pid=8)
    story.began(job, pid=8, alone=False)
    story.ended(job, pid=8)
    story.finish(job, "succeeded")


def _side_by_side(story: Story, together_seconds: float = 0.2) -> None:
    job = story.accepted()
    story.claimed(job, pid=7)
    story.began(job, pid=7)
    story.requeue(job, code="")
    story.claimed(job, pid=8)
    story.began(job, pid=8, alone=False)
    story.now += together_seconds
    story.ended(job, pid=7, attempt=1, how="JobCancelled")
    story.ended(job, pid=8)
    story.finish(job, "succeeded")


@shows(Kind.TOO_MANY_BODIES)
def three_bodies_on_two_processes(story: Story) -> None:
    jobs = [story.accepted() for _ in range(3)]
    for pid, job in enumerate(jobs):
        story.claimed(job, pid)
        story.began(job, pid)
    for pid, job in enumerate(jobs):
        story.ended(job, pid)
        story.finish(job, "succeeded")


@shows(Kind.LOST_WITHOUT_CAUSE)
def a_restart_of_the_database_loses_a_running_job(story: Story) -> None:
    story.struck("restart")
    job = story.accepted()
    story.claimed(job)
    story.began(job)
    story.finish(job, "failed", "worker_lost")


@shows(Kind.LOST_WITHOUT_CAUSE)
def a_job_is_given_up_before_its_process_is_killed(story: Story) -> None:
    job = story.accepted()
    story.claimed(job)
    story.began(job)
    story.finish(job, "failed", "worker_lost")
    story.struck("kill", 7)


@shows(Kind.LOST_WITHOUT_CAUSE)
def a_job_is_given_up_long_after_a_process_of_that_pid_was_killed(story: Story) -> None:
    story.struck("kill", 7)
    story.now += 300.0
    job = story.accepted()
    story.claimed(job)
    story.began(job)
    story.finish(job, "failed", "worker_lost")


@shows(Kind.RELEASED_WITHOUT_CAUSE)
def a_job_is_given_back_although_nobody_stopped_its_worker(story: Story) -> None:
    job = story.accepted()
    story.claimed(job)
    story.began(job)
    story.requeue(job, code="released")
    story.ran(job, pid=8)


@shows(Kind.START_AFTER_DEADLINE)
def a_start_after_the_deadline(story: Story) -> None:
    story.ran(story.accepted(deadline_at=EPOCH + story.now - 1.0))


@shows(Kind.START_AFTER_EXPIRY)
def a_start_after_start_by(story: Story) -> None:
    job = story.accepted(start_by=EPOCH + story.now + 1.0)
    story.now += 2.0
    story.ran(job)


@shows(Kind.START_AFTER_EXPIRY)
def a_start_after_start_by_that_failed(story: Story) -> None:
    job = story.accepted(start_by=EPOCH + story.now + 1.0)
    story.now += 2.0
    story.claimed(job)
    story.began(job)
    story.ended(job, how="RuntimeError")
    story.finish(job, "failed", "handler_error")


@shows(Kind.START_AFTER_EXPIRY)
def an_expired_job_had_started(story: Story) -> None:
    job = story.accepted()
    story.claimed(job)
    story.finish(job, "expired", "max_wait")


@shows(Kind.START_AFTER_CANCEL)
def a_claim_after_the_cancel_was_stored(story: Story) -> None:
    job = story.accepted()
    story.change(job, cancel_requested_at=EPOCH + story.now)
    story.cancelled(job, 202, "running")
    story.claimed(job)
    story.finish(job, "cancelled")


@shows(Kind.START_AFTER_CANCEL)
def a_body_begins_after_the_caller_was_told_cancelled(story: Story) -> None:
    job = story.accepted()
    story.claimed(job)
    story.cancelled(job, 200, "cancelled")
    story.began(job)
    story.finish(job, "cancelled")


@shows(Kind.START_AFTER_END)
def a_body_begins_after_a_caller_saw_the_end(story: Story) -> None:
    job = story.accepted()
    story.claimed(job)
    story.finish(job, "failed", "timeout")
    story.looked(job, "failed", "timeout")
    story.began(job)


@shows(Kind.START_AFTER_END)
def a_claim_after_the_end(story: Story) -> None:
    job = story.accepted()
    story.claimed(job)
    story.finish(job, "failed", "timeout")
    ended_at = story.jobs[job].finished_at
    story.claimed(job)
    story.finish(job, "failed", "timeout")
    story.change(job, finished_at=ended_at)
