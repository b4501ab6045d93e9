"""The testing kit says of a handler what a worker would make of it, and needs no server."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.unit.kit_types import HOW, Params, handler, patient, raising, run_doing
from workers import Fail, JobContext, RetryLater
from workers.by_hand import Refused
from workers.testing import (
    Again,
    FakeClock,
    FannedOut,
    OnceCall,
    Progress,
    Stop,
    answered,
    failed,
    late,
    run,
    upload_id,
)
from workers.testing.notes import WrongTest

BACKOFF = 40.0  # the default base


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    HOW.clear()


# ── Params and results ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_handler_is_run_by_itself_or_by_its_types_name() -> None:
    HOW["do"] = lambda ctx: ctx.params.n**2
    for ran in (run(handler, {"n": 12}), run("tests.kit", {"n": 12}), run(handler, Params(n=12))):
        assert (ran.state, ran.result, ran.decision, ran.exception) == ("succeeded", 144, None, None)


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"n": -1}, r"^The params do not fit tests\.kit: n: Input should be greater than or equal to 0\.$"),
        ({"n": 1, "m": 2}, r"m: There is no field of that name\.$"),
        ([1], "must be a JSON object"),
        ({"does": {1, 2}}, "not JSON-able"),
        ({"does": "a\0"}, r"U\+0000"),
        ({"does": "x" * 65_536}, r"^The params are 65547 bytes; at most 65536 are taken\.$"),
    ],
)
def test_params_are_refused_as_at_the_door(params: Any, sentence: str) -> None:
    with pytest.raises(Refused, match=sentence):
        run_doing(lambda ctx: None, params=params)


def test_params_of_the_largest_size_are_taken() -> None:
    assert run_doing(lambda ctx: len(ctx.params.does), params={"does": "x" * (65_536 - 11)}).result == 65_525


@pytest.mark.parametrize("what", ["tests.none", lambda ctx: None])
def test_what_is_no_job_type_is_refused(what: Any) -> None:
    with pytest.raises(Refused, match="There is no job type 'tests.none'; there are|has no @job"):
        run(what)


def test_a_result_is_what_a_caller_reads_of_it() -> None:
    assert run_doing(lambda ctx: {"pair": (1, 2)}).result == {"pair": [1, 2]}


@pytest.mark.parametrize(("result", "code"), [({1}, "bad_result"), ("x" * 1_048_576, "result_too_large")])
def test_a_result_that_cannot_be_stored_fails_for_good(result: object, code: str) -> None:
    ran = run_doing(lambda ctx: result)
    assert (ran.state, ran.error_code, ran.decision) == ("failed", code, Stop("not_retryable"))


# ── Failures and retries ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_caller_reads_a_fail_as_it_is_and_of_another_exception_its_class_only() -> None:
    ran = run_doing(raising(Fail("no_route", "There is none.", {"from": "a"})))
    assert (ran.state, ran.error_code, ran.error_message) == ("failed", "no_route", "There is none.")
    assert (ran.error_details, ran.decision) == ({"from": "a"}, Stop("not_retryable"))
    error = KeyError("secret")
    ran = run_doing(raising(error))
    assert (ran.error_code, ran.error_message, ran.exception) == ("handler_error", "KeyError", error)


def test_attempts_follow_one_another_until_they_are_spent() -> None:
    first = run_doing(raising(OSError()))
    second = run_doing(raising(OSError()), after=first)
    third = run_doing(raising(OSError()), after=second)
    assert [ran.state for ran in (first, second, third)] == ["queued", "queued", "failed"]
    assert [ran.decision for ran in (first, second, third)] == [Again(BACKOFF), Again(2 * BACKOFF), Stop("attempts")]
    assert [(ran.attempt, ran.failures) for ran in (first, second, third)] == [(1, 1), (2, 2), (3, 3)]


@pytest.mark.parametrize(("attempt", "state"), [(1, "queued"), (2, "queued"), (3, "failed")])
def test_an_attempt_can_be_said_without_those_before_it(attempt: int, state: str) -> None:
    seen = []

    def fails(ctx: JobContext[Params]) -> None:
        seen.append(ctx.attempt)
        raise OSError

    assert run_doing(fails, attempt=attempt).state == state
    assert seen == [attempt]


@pytest.mark.parametrize(("deadline", "decision"), [(41.0, Again(BACKOFF)), (40.9, Stop("no_time"))])
def test_a_retry_must_fit_before_the_deadline(deadline: float, decision: Again | Stop) -> None:
    clock = FakeClock()

    def fails_after_a_second(ctx: JobContext[Params]) -> None:
        clock.sleep(1)
        raise OSError

    assert run_doing(fails_after_a_second, deadline=deadline, clock=clock).decision == decision


def test_when_to_retry_is_the_handlers_or_the_draws_to_say() -> None:
    assert run_doing(raising(RetryLater(7))).decision == Again(7)
    assert run_doing(raising(OSError()), draw=lambda low, high: low).decision == Again(0.0)


@pytest.mark.parametrize(("left", "decision"), [(True, Again(BACKOFF)), (False, Stop("budget"))])
def test_a_node_without_budget_retries_nothing(left: bool, decision: Again | Stop) -> None:
    HOW["do"] = raising(OSError())
    assert run(patient, budget_left=left).decision == decision


# ── What it did through its context ──────────────────────────────────────────────────────────────────────────────────


def test_progress_is_kept_call_by_call_and_says_what_would_be_written() -> None:
    clock = FakeClock()

    def steps(ctx: JobContext[Params]) -> None:
        for step, pause in ((0.1, 0.9), (0.2, 0.1), (0.3, 0), (0.7, 1), (1, 0)):
            ctx.progress(step, f"step {step}")
            clock.sleep(pause)

    assert run_doing(steps, clock=clock).progress == (
        Progress(0.1, "step 0.1", True),
        Progress(0.2, "step 0.2", False),
        Progress(0.3, "step 0.3", True),
        Progress(0.7, "step 0.7", False),
        Progress(1.0, "step 1", True),
    )


def test_log_lines_are_kept_and_printed_nowhere(capfd: pytest.CaptureFixture[str]) -> None:
    def logs(ctx: JobContext[Params]) -> None:
        ctx.log.bind(part="a").info("began", size=3)
        ctx.log.warning("took %s tries", 2)

    first, second = run_doing(logs, attempt=2).log
    assert {"level": "info", "event": "began", "size": 3, "part": "a", "attempt": 2}.items() <= first.items()
    assert (second["level"], second["event"]) == ("warning", "took 2 tries")
    assert capfd.readouterr() == ("", "")


def test_once_keys_last_from_one_attempt_to_the_next() -> None:
    charged = []

    def charge() -> str:
        charged.append(1)
        return "r-1"

    def charges(ctx: JobContext[Params]) -> Any:
        receipt = ctx.once("charge", charge)
        first_mail = ctx.once("mail")
        if ctx.attempt == 1:
            raise OSError
        return [receipt, first_mail, ctx.once("second")]

    first = run_doing(charges)
    second = run_doing(charges, after=first)
    again = run_doing(charges, after=first)
    assert first.once == (OnceCall("charge", True), OnceCall("mail", True))
    # Two second attempts of one first do not know of each other.
    assert second.once == again.once == (OnceCall("charge", False), OnceCall("mail", False), OnceCall("second", True))
    assert second.result == ["r-1", False, True]
    assert charged == [1]


def test_fakes_are_what_the_handler_calls() -> None:
    class Http:
        def get(self, url: str) -> str:
            return f"page of {url}"

    def calls(ctx: JobContext[Params]) -> Any:
        return [ctx.http.get("x"), ctx.fan_out({"a": cast(Any, 1)}, 1.2, required=["a"])]

    ran = run_doing(calls, http=Http(), fan_out=lambda calls, deadline, required=(): [*calls, deadline, *required])
    assert ran.result == ["page of x", ["a", 1.2, "a"]]


def _asks(ctx: JobContext[Params]) -> Any:
    calls = {name: cast(Any, name.upper()) for name in ("a", "b")}
    return [outcome.data for outcome in ctx.fan_out(calls, ctx.deadline, required=["a"]).values()]


def test_what_calls_bring_is_said_by_name_and_what_was_called_can_be_seen() -> None:
    ran = run_doing(_asks, fan_out={"b": late(), "a": answered([1]), "unused": failed()}, timeout=7)
    assert ran.result == [[1], None]
    assert ran.fan_outs == (FannedOut({"a": "A", "b": "B"}, 7.0, ("a",)),)


@pytest.mark.parametrize(("brings", "again"), [(failed(), True), (failed("http_404", 404, retryable=False), False)])
def test_a_required_call_that_failed_ends_the_attempt_as_it_would_on_a_worker(brings: Any, again: bool) -> None:
    ran = run_doing(_asks, fan_out={"a": brings, "b": answered()})
    assert type(ran.exception).__name__ == "RequiredCallFailed"
    assert isinstance(ran.decision, Again) is again


def test_a_call_of_which_nothing_was_said_is_the_tests_fault() -> None:
    with pytest.raises(WrongTest, match="^The handler calls b: say in fan_out={…} what they bring"):
        run_doing(_asks, fan_out={"a": answered()})


@pytest.mark.parametrize("uses", [lambda ctx: ctx.http.get("x"), lambda ctx: ctx.fan_out({}, 1)])
def test_a_fake_that_is_missing_is_asked_for(uses: Any) -> None:
    with pytest.raises(WrongTest, match="give run\\(\\) a fake as "):
        run_doing(uses)


def test_a_mistake_of_the_test_comes_out_whatever_the_handler_does_with_it() -> None:
    def swallows(ctx: JobContext[Params]) -> str:
        try:
            ctx.progress(50, "half")
        except BaseException:
            pass
        return "done"

    with pytest.raises(WrongTest, match="a fraction from 0 to 1, and was given 50"):
        run_doing(swallows)


@pytest.mark.parametrize("name", ["cancel_at", "stop_at"])
def test_nothing_happens_before_the_start(name: str) -> None:
    with pytest.raises(Refused, match=f"^{name} is -1, but must be seconds from the start"):
        run_doing(lambda ctx: None, **{name: -1})


def test_an_effect_whose_result_cannot_be_kept_has_happened_and_is_not_repeated() -> None:
    charged: list[object] = []

    def charges(ctx: JobContext[Params]) -> None:
        def charge() -> object:
            charged.append(1)
            return object()

        ctx.once("charge", charge)

    ran = run_doing(charges)
    assert (len(charged), ran.state, ran.decision) == (1, "failed", Stop("not_retryable"))
    assert ran.once == (OnceCall("charge", happened=True),)
    assert type(ran.exception).__name__ == "ResultNotKept"
    run_doing(charges, after=ran)
    assert len(charged) == 1


# ── Files ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _copy(ctx: JobContext[Params]) -> None:
    with ctx.open_upload(upload_id()) as sent, ctx.artifacts.create("copy.txt", "text/plain") as left:
        left.write(sent.read())


def test_an_upload_is_bytes_or_a_file_and_what_is_left_can_be_looked_at(tmp_path: Path) -> None:
    file = tmp_path / "sent.txt"
    file.write_bytes(b"from a file")
    for content, expected in ((b"bytes", b"bytes"), (file, b"from a file"), (str(file), b"from a file")):
        ran = run_doing(_copy, uploads={upload_id(): content})
        assert (ran.artifacts["copy.txt"].content_type, ran.artifacts["copy.txt"].data) == ("text/plain", expected)


def test_an_attempt_that_does_not_succeed_leaves_nothing() -> None:
    def fail(ctx: JobContext[Params]) -> None:
        _copy(ctx)
        raise ConnectionResetError

    first = run_doing(fail, uploads={upload_id(): b"x"})
    assert (first.state, first.artifacts) == ("queued", {})
    assert set(run_doing(_copy, uploads={upload_id(): b"x"}, after=first).artifacts) == {"copy.txt"}


def test_an_upload_of_which_nothing_was_said_is_the_tests_mistake() -> None:
    with pytest.raises(WrongTest, match=rf"opens upload {upload_id()}: say in uploads="):
        run_doing(_copy)


def test_sizes_and_names_are_checked_as_a_worker_does(settings: Any) -> None:
    settings.WEIGHBRIDGE_MAX_ARTIFACT_BYTES = 3
    assert run_doing(_copy, uploads={upload_id(): b"abcd"}).error_code == "artifact_too_large"

    def tricky(ctx: JobContext[Params]) -> None:
        with ctx.artifacts.create("../x"):
            pass

    assert isinstance(run_doing(tricky).exception, ValueError)


@pytest.mark.parametrize("given", ["x", upload_id().replace("-", ""), "00000000-0000-0000-0000-00000000000G"])
def test_params_that_name_no_upload_are_refused_as_at_the_door(given: str) -> None:
    with pytest.raises(Refused, match="file: There is no upload of that id"):
        run("reports.statistics", {"file": given})
