"""Bad histories of submits and ends, at least one per kind of anomaly. Each has that anomaly and no other.

Those of starts are in `bad_runs`.
"""

from collections.abc import Callable

from tests.history.events import BodyBegan, SubmitAccepted, SubmitRefused
from tests.history.hand_made import BOUND, Story
from tests.history.verdict import Kind

# Both modules' histories are in it once both are imported.
Teller = Callable[[Story], object]
BAD: list[tuple[Kind, Teller]] = []


def shows(kind: Kind) -> Callable[[Teller], Teller]:
    def register(tell: Teller) -> Teller:
        BAD.append((kind, tell))
        return tell

    return register


# --- At the door --------------------------------------------------------------------------------------------------


@shows(Kind.LOST)
def an_accepted_job_is_not_there(story: Story) -> None:
    story.told(SubmitAccepted, story.invoked(), "gone", 202)


@shows(Kind.LOST)
def two_submits_are_told_the_same_job(story: Story) -> None:
    job = story.ran(story.accepted())
    story.told(SubmitAccepted, story.invoked(), job, 202)


@shows(Kind.LOST)
def an_accepted_job_is_answered_404(story: Story) -> None:
    story.looked(story.ran(story.accepted()), "missing")


@shows(Kind.DUPLICATED)
def one_submit_becomes_two_jobs(story: Story) -> None:
    first = story.ran(story.accepted())
    story.ran(story.row(story.jobs[first].submission))


@shows(Kind.UNEXPECTED)
def a_job_that_nobody_submitted(story: Story) -> None:
    story.ran(story.accepted())
    story.ran(story.row("story/nobody"))


@shows(Kind.UNEXPECTED)
def a_body_of_no_job(story: Story) -> None:
    story.told(BodyBegan, "nowhere", 1, 7, True)


@shows(Kind.REFUSED_RAN)
def a_refused_job_runs(story: Story) -> None:
    call = story.refused(503, "unavailable")
    story.ran(story.row(f"story/{call}"))


@shows(Kind.REFUSED_RAN)
def a_job_that_was_never_sent_is_there(story: Story) -> None:
    story.finish(story.row(f"story/{story.unsent()}"), "expired", "max_wait")


@shows(Kind.UNACCOUNTED)
def an_answer_that_is_no_verdict(story: Story) -> None:
    story.refused(500, "internal_error")


@shows(Kind.UNACCOUNTED)
def a_good_key_that_was_not_let_in(story: Story) -> None:
    story.refused(401, "unauthorized")


@shows(Kind.UNACCOUNTED)
def a_refusal_without_a_code(story: Story) -> None:
    story.refused(422, "")


@shows(Kind.UNACCOUNTED)
def accepted_and_refused_at_once(story: Story) -> None:
    job = story.ran(story.accepted())
    story.told(SubmitRefused, story.jobs[job].submission.partition("/")[2], 503, "queue_full")


@shows(Kind.SHARE_UNFOUNDED)
def a_share_of_a_class_that_has_room_for_all(story: Story) -> None:
    story.ran(story.accepted())
    story.refused(503, "share_full", crowded=False)


@shows(Kind.KEY_TWICE)
def one_key_becomes_two_jobs(story: Story) -> None:
    story.ran(story.accepted("k"))
    story.ran(story.accepted("k"))


@shows(Kind.OVER_ADMITTED)
def one_more_than_there_is_room_for(story: Story) -> None:
    for job in [story.accepted() for _ in range(BOUND + 1)]:
        story.ran(job)


@shows(Kind.OVER_ADMITTED)
def the_place_of_a_job_in_backoff_is_given_away(story: Story) -> None:
    waits = story.accepted(admitted_bound=1)
    story.claimed(waits)
    story.struck("kill", 7)
    story.requeue(waits)
    story.ran(story.accepted(admitted_bound=1))
    story.ran(waits, pid=8)


@shows(Kind.TOO_MANY_UNKNOWN)
def two_of_a_hundred_submits_are_cut(story: Story) -> None:
    for number in range(100):
        story.cut() if number in (3, 50) else story.refused()


# --- At the end ---------------------------------------------------------------------------------------------------


@shows(Kind.CHANGED)
def an_end_becomes_another(story: Story) -> None:
    job = story.ran(story.accepted())
    story.looked(job, "failed", "timeout")
    story.looked(job, "succeeded")


@shows(Kind.CHANGED)
def an_end_is_not_what_the_row_says(story: Story) -> None:
    story.looked(story.ran(story.accepted()), "cancelled")


@shows(Kind.CHANGED)
def an_end_is_taken_back(story: Story) -> None:
    job = story.ran(story.accepted())
    story.looked(job, "succeeded", finished_at="12:00")
    story.looked(job, "running")
    story.looked(job, "succeeded", finished_at="12:00")


@shows(Kind.CANCEL_BROKEN)
def a_success_after_a_202(story: Story) -> None:
    job = story.accepted()
    story.claimed(job)
    story.began(job)
    story.cancelled(job, 202, "running")
    story.ended(job)
    story.finish(job, "succeeded")


@shows(Kind.CANCEL_BROKEN)
def a_409_that_said_another_end(story: Story) -> None:
    story.cancelled(story.ran(story.accepted()), 409, "failed")


@shows(Kind.CANCEL_BROKEN)
def a_repeated_cancel_gives_another_instant(story: Story) -> None:
    job = story.accepted()
    story.cancelled(job, 200, "cancelled", "12:00")
    story.cancelled(job, 200, "cancelled", "12:01")
    story.finish(job, "cancelled")


@shows(Kind.UNASKED_CANCEL)
def a_cancel_that_nobody_asked_for(story: Story) -> None:
    story.finish(story.accepted(), "cancelled")


@shows(Kind.NOT_DRAINED)
def a_job_still_runs_in_the_end(story: Story) -> None:
    job = story.accepted()
    story.claimed(job)
    story.began(job)


@shows(Kind.NOT_DRAINED)
def a_class_is_left_with_a_waiting_job(story: Story) -> None:
    story.looked_at_class(0, 0)
    story.looked_at_class(1, 0)
