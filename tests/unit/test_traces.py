"""W3C trace context, as its level 1 has it: what is taken, and what is told onward."""

import pytest

from jobs import traces

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GIVEN = f"00-{TRACE}-{PARENT}-01"


@pytest.mark.parametrize(
    "header", [GIVEN, f" {GIVEN} ", f"01-{TRACE}-{PARENT}-01", f"cc-{TRACE}-{PARENT}-01-what-will-be"]
)
def test_a_trace_is_taken_also_from_a_later_version(header: str) -> None:
    assert traces.accepted(header) == GIVEN
    assert traces.trace_id(traces.accepted(header)) == TRACE


@pytest.mark.parametrize(
    "header",
    [
        "",
        "no trace",
        f"ff-{TRACE}-{PARENT}-01",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-01-more",
        f"00-{TRACE}-{PARENT}",
        f"00-{TRACE[:-1]}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-0\u0661",
        f"01-{TRACE}-{PARENT}-01.x",
    ],
)
def test_what_is_no_trace_is_as_none(header: str) -> None:
    assert traces.accepted(header) == ""


def test_onward_it_is_the_same_trace_with_another_parent() -> None:
    one, other = traces.onward(GIVEN), traces.onward(GIVEN)
    assert traces.accepted(one) == one
    assert {traces.trace_id(one), traces.trace_id(other)} == {TRACE}
    assert len({one, other, GIVEN}) == 3
    assert one.endswith("-01")
    assert traces.onward("") == ""
