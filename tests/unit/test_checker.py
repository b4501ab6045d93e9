"""The checker of histories: each kind of bad history is caught, as that kind and no other; good ones pass."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.history import bad_runs  # noqa: F401  its histories are in BAD too
from tests.history.bad_stories import BAD, Teller
from tests.history.events import BodyBegan, BodyEnded, NemesisBegan, SubmitAccepted, from_line, to_line
from tests.history.hand_made import EPOCH, Story
from tests.history.recorder import History
from tests.history.verdict import Kind


@pytest.mark.parametrize(("kind", "tell"), BAD, ids=[tell.__name__ for _, tell in BAD])
def test_a_bad_history_is_caught_as_what_it_is(kind: Kind, tell: Teller) -> None:
    story = Story(processes={"light": 2})
    tell(story)
    verdict = story.verdict()
    assert verdict.kinds == {kind}, str(verdict)
    assert all(sentence.endswith(".") for sentence in verdict.of(kind))
    with pytest.raises(AssertionError, match=kind.value):
        verdict.must_hold()


def test_every_kind_has_its_bad_history() -> None:
    assert {kind for kind, _ in BAD} == set(Kind)


def test_an_empty_history_holds() -> None:
    Story().verdict().must_hold()


def test_an_unknown_submit_whose_job_is_there_is_recovered_and_not_lost() -> None:
    story = Story(unknown_share=1.0)
    story.ran(story.row(f"story/{story.cut()}"))
    story.cut()
    verdict = story.verdict()
    verdict.must_hold()
    assert (verdict.counts.unknown, verdict.counts.recovered) == (2, 1)


def test_a_submit_that_its_client_never_finished_is_unknown() -> None:
    story = Story(unknown_share=1.0)
    story.invoked()
    assert story.verdict().counts.unknown == 1


def test_a_submit_that_never_reached_a_server_is_neither_answered_nor_unknown() -> None:
    story = Story()
    story.unsent()
    verdict = story.verdict()
    verdict.must_hold()
    assert (verdict.counts.invoked, verdict.counts.unsent, verdict.counts.unknown) == (1, 1, 0)


def test_one_unknown_in_a_hundred_is_allowed() -> None:
    story = Story()
    story.cut()
    for _ in range(99):
        story.refused()
    story.verdict().must_hold()


def test_a_key_that_was_refused_first_may_be_accepted_later_and_replayed() -> None:
    story = Story()
    story.told(SubmitAccepted, story.invoked("k"), story.accepted("k"), 202)
    job = next(iter(story.jobs))
    story.ran(job)
    story.verdict().must_hold()


def test_a_lost_child_is_an_end_when_a_nemesis_hit_it() -> None:
    story = Story()
    job = story.accepted()
    story.claimed(job, pid=7)
    story.began(job, pid=7)
    story.struck("kill", 7)
    story.finish(job, "failed", "worker_lost")
    verdict = story.verdict()
    verdict.must_hold()
    assert verdict.counts.killed_bodies == 1
    assert verdict.counts.ended == {"failed/worker_lost": 1}


def test_a_body_that_returned_just_before_its_process_was_killed_may_run_again() -> None:
    story = Story()
    job = story.accepted()
    story.claimed(job, pid=7)
    story.began(job, pid=7)
    story.ended(job, pid=7)
    story.struck("kill", 7)
    story.requeue(job)
    story.ran(job, pid=8)
    story.verdict().must_hold()


def test_an_attempt_may_end_before_its_body_began() -> None:
    story = Story()
    job = story.accepted()
    story.claimed(job)
    story.struck("kill", 7)
    story.finish(job, "failed", "worker_lost")
    verdict = story.verdict()
    verdict.must_hold()
    assert verdict.counts.unstarted == 1


def test_a_node_paused_for_longer_than_its_lease_may_overlap_until_a_beat_after() -> None:
    story = Story()
    job = story.accepted()
    story.claimed(job, pid=7)
    story.began(job, pid=7)
    story.struck("pause", 7, lasting=4.0)
    story.now += 3.0
    story.requeue(job)
    story.claimed(job, pid=8)
    story.began(job, pid=8, alone=False)
    story.now += 1.0
    story.ended(job, pid=7, attempt=1, how="JobCancelled")
    story.ended(job, pid=8)
    story.finish(job, "succeeded")
    verdict = story.verdict()
    verdict.must_hold()
    assert verdict.counts.excused_overlaps == 1


def test_a_waiting_job_past_its_start_by_holds_no_place() -> None:
    story = Story()
    stale = story.accepted(admitted_bound=1, start_by=EPOCH + story.now + 1.0)
    story.now += 2.0
    story.ran(story.accepted(admitted_bound=1))
    story.finish(stale, "expired", "max_wait")
    story.verdict().must_hold()


def test_jobs_of_others_take_room_but_are_not_ours_to_explain() -> None:
    story = Story()
    story.ran(story.accepted())
    story.finish(story.row(""), "cancelled")
    story.finish(story.row("other/c-1"), "expired", "max_wait")
    verdict = story.verdict()
    verdict.must_hold()
    assert verdict.counts.foreign == 2


STEPS = st.sampled_from(["runs", "fails", "refused", "cancelled", "cancelled_late", "expires", "killed", "replaced"])


@given(st.lists(STEPS, max_size=30))
def test_whatever_befalls_jobs_one_after_the_other_holds(steps: list[str]) -> None:
    story = Story(processes={"light": 1})
    for step in steps:
        _befalls(story, step)
    story.looked_at_class(0, 0)
    verdict = story.verdict()
    verdict.must_hold()
    counts = verdict.counts
    assert counts.accepted + sum(counts.refused.values()) == counts.invoked == len(steps)
    assert sum(counts.ended.values()) == counts.accepted


def _befalls(story: Story, step: str) -> None:
    if step == "refused":
        story.refused()
        return
    job = story.accepted(start_by=EPOCH + story.now + 60)
    if step == "runs":
        story.ran(job)
    elif step in ("fails", "cancelled_late"):
        state, code = ("failed", "handler_error") if step == "fails" else ("cancelled", "")
        story.claimed(job)
        if step == "cancelled_late":
            story.change(job, cancel_requested_at=EPOCH + story.now)
            story.cancelled(job, 202, "running")
        story.began(job)
        story.ended(job, how="RuntimeError")
        story.finish(job, state, code)
    elif step == "cancelled":
        story.cancelled(job, 200, "cancelled")
        story.finish(job, "cancelled")
    elif step == "expires":
        story.now += 61
        story.finish(job, "expired", "max_wait")
    else:
        pid = 1000 + len(story.events)  # a new process, since this one dies
        story.claimed(job, pid)
        story.began(job, pid)
        story.struck("kill", pid)
        if step == "replaced":
            story.requeue(job)
            story.ran(job)
        else:
            story.finish(job, "failed", "worker_lost")
    row = story.jobs[job]
    story.looked(job, row.state, row.error_code, str(row.finished_at))


@given(
    st.builds(BodyEnded, st.text(), st.integers(), st.integers(), st.text(), st.floats(0, 1e6))
    | st.builds(NemesisBegan, st.text(), st.text(), st.text(), st.tuples(st.integers(), st.integers()), st.just(1.5))
)
def test_an_event_is_read_as_it_was_written(event: BodyEnded | NemesisBegan) -> None:
    line = to_line(event)
    assert "\n" not in line
    assert from_line(line) == event


def test_a_line_torn_by_a_kill_spoils_no_other(tmp_path: Path) -> None:
    history = History(tmp_path / "history.jsonl")
    first, second = BodyBegan("j", 1, 7, True, 2.0), BodyEnded("j", 1, 7, "returned", 1.0)
    history.append(first)
    with history.path.open("a") as file:
        file.write("\n" + to_line(first)[:20])
    history.append(second)
    assert history.events() == [second, first]


def test_an_event_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ValueError, match="not an event"):
        from_line(json.dumps({"event": "Rumour", "at": 1.0}))
